package plugin

import (
	"encoding/json"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Where a short way stands beside a whole one, what the short one takes the whole
// one must take too, to the same end. Bodies: TestShortWaysOfReadingAgree, FuzzBody.

// pieces makes a text of up to n of the given ones.
func pieces(r *rand.Rand, n int, of ...string) string {
	var b strings.Builder
	for i := r.Intn(n + 1); i > 0; i-- {
		b.WriteString(of[r.Intn(len(of))])
	}
	return b.String()
}

func newPair(t *testing.T, change func(*Config)) *edge {
	t.Helper()
	c := config()
	change(c)
	return start(t, c, &seen{}).(*edge)
}

func pairCall(e *edge, r *http.Request) *call {
	return &call{e: e, rw: httptest.NewRecorder(), r: r, start: time.Now(), now: time.Now().UnixNano(),
		method: r.Method, message: noMessage, verdict: allowed,
		secrets: e.table.Load().(*table)}
}

func TestPathPair(t *testing.T) {
	logged(t)
	r := rand.New(rand.NewSource(1))
	for _, prefix := range []string{"/mcp", "/", "/a.b/c"} {
		e := newPair(t, func(c *Config) { c.PathPrefix = prefix })
		short := 0
		for i := 0; i < 3000; i++ {
			path := strings.TrimSuffix(prefix, "/") + pieces(r, 6, "/a", "/b-c", "/mcp", "/a", "/", "a", ".", "..",
				"%2e", ";", "\\", "//", "é", "-", "~", "_", "/.well-known/", "%", "?")
			q := post("/x", readFile)
			q.RequestURI = path
			q.URL.Path = path
			if !e.alike.MatchString(path) {
				continue
			}
			short++
			if !checkPath(pairCall(e, q)) {
				t.Errorf("%q below %s is plain, but refused", path, prefix)
			}
		}
		if short < 50 {
			t.Errorf("only %d paths are plain", short)
		}
	}
}

// A bucket with room and a place that is free are what the whole way finds, too.
func TestRatePair(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	const each = int64(time.Second)
	now := time.Now().UnixNano()
	for i := 0; i < 3000; i++ {
		full := now + r.Int63n(4*int64(time.Minute)) - 2*int64(time.Minute)
		if full-now > int64(time.Minute)-each {
			continue // not the short way's
		}
		u := &usage{full: full}
		want := now + each
		if full > now {
			want = full + each
		}
		if wait := take(u, now, each); wait != 0 || u.full != want {
			t.Fatalf("a bucket full since %d: wait %d, full in %d", now-full, wait, u.full-now)
		}
	}
}

func TestGrantPair(t *testing.T) {
	logged(t)
	r := rand.New(rand.NewSource(4))
	names := []string{"read_file", "run_command", "a.b", "*", "ask:x", "method:resources/read"}
	for i := 0; i < 500; i++ {
		list := []string{"one"}
		for n := r.Intn(4); n > 0; n-- {
			list = append(list, names[r.Intn(len(names))])
		}
		e := newPair(t, func(c *Config) { c.Tokens[0].Tools = list })
		g := e.tokens[0].who.grants
		for _, tool := range []string{"one", "read_file", "run_command", "a.b", "*", "x", "ask:x", "", "One"} {
			if !g.free[tool] {
				continue
			}
			c := pairCall(e, post("/mcp/mcp", named(tool)))
			c.who = e.tokens[0].who
			c.message = &message{id: []byte("1"), method: "tools/call", tool: tool}
			if !checkGrant(c) {
				t.Errorf("%q is free with %q, but refused", tool, list)
			}
		}
	}
}

// The short line of the log has what the long one has.
func TestAuditPair(t *testing.T) {
	log := logged(t)
	e := newPair(t, func(*Config) {})
	lines := func(m *message) map[string]interface{} {
		skip := len(log.String())
		c := pairCall(e, post("/mcp/mcp", readFile))
		c.who = e.tokens[0].who
		c.id = "x-1"
		c.status = 200
		c.message = m
		c.audit()
		var line map[string]interface{}
		if err := json.Unmarshal([]byte(log.String()[skip:]), &line); err != nil {
			t.Fatal(err)
		}
		delete(line, "time")
		delete(line, "ms")
		return line
	}
	short := lines(&message{method: "tools/call", tool: "read_file", fast: true})
	long := lines(&message{method: "tools/call", tool: "read_file"})
	if len(short) != len(long) {
		t.Errorf("short %v, long %v", short, long)
	}
	for key := range long {
		if short[key] != long[key] {
			t.Errorf("%s is %v in the short line, %v in the long one", key, short[key], long[key])
		}
	}
}

// What passes without a look is nothing that the look would stop or change.
func TestHeaderPair(t *testing.T) {
	for key := range fine {
		if key != "Authorization" && (neverFits(key) || namesSomebody(key)) {
			t.Errorf("%s of a request passes without a look", key)
		}
		if http.CanonicalHeaderKey(key) != key {
			t.Errorf("%s is no canonical name", key)
		}
	}
	for key := range plainAnswer {
		if challenges[key] || planted[key] || addresses[key] || http.CanonicalHeaderKey(key) != key {
			t.Errorf("%s of an answer passes without a look", key)
		}
	}
	for _, list := range []map[string]bool{never, naming, challenges, planted, addresses} {
		for key := range list {
			if http.CanonicalHeaderKey(key) != key {
				t.Errorf("%s is no canonical name", key)
			}
		}
	}
}

// An answer that passes without a look is what it would be after one.
func TestAnswerPair(t *testing.T) {
	logged(t)
	r := rand.New(rand.NewSource(5))
	e := newPair(t, func(c *Config) { c.Backend = "other"; c.BackendAuth = "none"; c.BackendToken = "" })
	values := map[string][]string{"Content-Type": {"application/json", "text/event-stream", "text/plain",
		"Application/JSON"}, "Content-Length": {"2"},
		"Mcp-Session-Id": {"s"}, "Location": {"/x", "//evil.example"}, "Set-Cookie": {"a=b"},
		"Www-Authenticate": {"Bearer"}, "X-Any": {"1"}}
	short := 0
	for i := 0; i < 2000; i++ {
		header := http.Header{}
		for key, of := range values {
			if r.Intn(2) == 0 {
				header[key] = []string{of[r.Intn(len(of))]}
			}
		}
		status := []int{200, 202, 204, 302, 401, 404}[r.Intn(6)]
		answers := [2]*httptest.ResponseRecorder{}
		for way := range answers {
			rec := httptest.NewRecorder()
			c := pairCall(e, post("/mcp/mcp", readFile))
			c.who = e.tokens[0].who
			c.rw = rec
			c.path = "/mcp/mcp"
			for key := range header {
				rec.Header()[key] = []string{header.Get(key)}
			}
			w := &answerWriter{ResponseWriter: rec, c: c, looks: way == 1}
			if way == 0 {
				w.WriteHeader(status)
				if !w.untouched || w.flushes {
					break
				}
				short++
			} else {
				w.WriteHeader(status)
			}
			_, _ = w.Write([]byte("{}"))
			answers[way] = rec
		}
		if a, b := answers[0], answers[1]; b != nil &&
			(a.Code != b.Code || a.Body.String() != b.Body.String() || len(a.Header()) != len(b.Header())) {
			t.Errorf("%d %v: %d %v without a look, %d %v after one", status, header, a.Code, a.Header(), b.Code,
				b.Header())
		}
	}
	if short < 20 {
		t.Errorf("only %d answers pass without a look", short)
	}
}

// A stream in one piece and one byte by byte become the same.
func TestScanPair(t *testing.T) {
	r := rand.New(rand.NewSource(6))
	for i := 0; i < 1500; i++ {
		stream := pieces(r, 12, "data: {}\n\n", "event: message\n", "event: endpoint\n", "data: /m\n", "\n", "\r\n",
			"\r", ": x\n", "\u2028", "data: //evil.example\n\n", "id: 1\n")
		whole, whyWhole := scanAll(newScanner(), stream, len(stream)+1)
		single, whySingle := scanAll(newScanner(), stream, 1)
		same := lineFeeds(whole) == lineFeeds(single)
		if whyWhole != "" { // comments before what stops it may have passed
			same = strings.HasPrefix(lineFeeds(single), lineFeeds(whole))
		}
		if !same || (whyWhole == "") != (whySingle == "") {
			t.Errorf("%q: whole %q (%s), byte by byte %q (%s)", stream, whole, whyWhole, single, whySingle)
		}
	}
}

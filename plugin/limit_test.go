package plugin

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestRate(t *testing.T) {
	logged(t)
	c := config()
	c.Tokens[0].RequestsPerMinute = 3
	h := start(t, c, &seen{})
	for i := 0; i < 3; i++ {
		if rec := do(h, post("/mcp/mcp", readFile)); rec.Code != 200 {
			t.Fatalf("request %d: status %d", i, rec.Code)
		}
	}
	// A reload makes new instances: the bucket is the same.
	h = start(t, c, &seen{})
	rec := do(h, post("/mcp/mcp", readFile))
	wait, err := strconv.Atoi(rec.Header().Get("Retry-After"))
	if rec.Code != 429 || err != nil || wait < 1 || wait > 20 {
		t.Fatalf("status %d, Retry-After %q", rec.Code, rec.Header().Get("Retry-After"))
	}
	usageMu.Lock()
	for _, u := range usages {
		u.full -= int64(wait) * int64(time.Second)
	}
	usageMu.Unlock()
	if rec := do(h, post("/mcp/mcp", readFile)); rec.Code != 200 {
		t.Errorf("after Retry-After: status %d", rec.Code)
	}
}

// A clock that is set back by an hour must not shut anybody out for an hour.
func TestClockIsSetBack(t *testing.T) {
	logged(t)
	h := start(t, config(), &seen{})
	usageMu.Lock()
	for _, u := range usages {
		u.full = time.Now().Add(time.Hour).UnixNano()
	}
	usageMu.Unlock()
	if rec := do(h, post("/mcp/mcp", readFile)); rec.Code != 200 {
		t.Errorf("status %d, Retry-After %q", rec.Code, rec.Header().Get("Retry-After"))
	}
}

// holding is a backend that holds requests until they are released.
type holding struct{ entered, release chan struct{} }

func (b *holding) ServeHTTP(rw http.ResponseWriter, _ *http.Request) {
	b.entered <- struct{}{}
	<-b.release
	rw.WriteHeader(200)
}

func newHolding() *holding {
	return &holding{entered: make(chan struct{}, 100), release: make(chan struct{})}
}

func serveHeld(h http.Handler, r *http.Request, done chan struct{}) {
	h.ServeHTTP(httptest.NewRecorder(), r)
	done <- struct{}{}
}

func get(path string) *http.Request {
	r := post(path, "")
	method("GET")(r)
	return r
}

func listen() *http.Request { return post("/mcp/mcp", called("subscriptions/listen", "{}")) }

func TestConcurrencyAndStreams(t *testing.T) {
	logged(t)
	b := newHolding()
	c := config()
	c.Tokens[0].MaxConcurrent = 2
	c.Tokens[0].MaxStreams = 3
	h := start(t, c, b)
	done := make(chan struct{}, 100)
	open := []*http.Request{post("/mcp/mcp", readFile), post("/mcp/mcp", readFile), get("/mcp/sse"), get("/mcp/sse"), get("/mcp/sse")}
	for i := range open {
		go serveHeld(h, open[i], done)
		<-b.entered
	}
	// A reload does not forget what is open.
	h = start(t, c, b)
	for _, r := range []*http.Request{post("/mcp/mcp", readFile), get("/mcp/sse"), listen()} {
		if rec := do(h, r); rec.Code != 429 || rec.Header().Get("Retry-After") == "" {
			t.Errorf("%s: status %d, Retry-After %q", r.Method, rec.Code, rec.Header().Get("Retry-After"))
		}
	}
	close(b.release)
	for range open {
		<-done
	}
	for _, r := range []*http.Request{post("/mcp/mcp", readFile), get("/mcp/sse"), listen()} {
		if rec := do(h, r); rec.Code != 200 {
			t.Errorf("after the others ended: status %d", rec.Code)
		}
	}
	usageMu.Lock()
	defer usageMu.Unlock()
	for key, u := range usages {
		if strings.HasPrefix(key, t.Name()) && (u.open[calls].Load() != 0 || u.open[streams].Load() != 0) {
			t.Errorf("still counted: %v", u.open)
		}
	}
}

// A subscription is a stream: it leaves the room for calls.
func TestSubscriptionCountsAsStream(t *testing.T) {
	logged(t)
	b := newHolding()
	c := config()
	c.Tokens[0].MaxConcurrent = 1
	h := start(t, c, b)
	done := make(chan struct{}, 2)
	go serveHeld(h, listen(), done)
	<-b.entered
	go serveHeld(h, post("/mcp/mcp", readFile), done)
	<-b.entered
	close(b.release)
	<-done
	<-done
}

func TestUsageIsBounded(t *testing.T) {
	logged(t)
	usageMu.Lock()
	kept := usages
	usages = map[string]*usage{}
	swept = time.Time{}
	usageMu.Unlock()
	now := time.Now()
	e := &edge{name: t.Name()}
	for i := 0; i < maxUsages; i++ {
		u := usageOf(e, "oauth:"+strconv.Itoa(i), now)
		take(u, now.UnixNano(), int64(6*time.Second))
		u.open[streams].Store(1)
	}
	if usageOf(e, "oauth:one more", now.Add(2*time.Minute)) != nil {
		t.Error("an open stream was forgotten, or the registry is not bounded")
	}
	p := newIDP(t)
	s := &seen{}
	h := start(t, p.config(), s)
	if rec := do(h, bearing(p.good(t))); rec.Code != 429 || s.calls != 0 {
		t.Errorf("a principal without room: status %d", rec.Code)
	}
	if rec := do(start(t, config(), s), post("/mcp/mcp", readFile)); rec.Code != 200 {
		t.Errorf("a configured token, which always has room: status %d", rec.Code)
	}
	for _, u := range usages {
		u.open[streams].Store(0)
	}
	if usageOf(e, "oauth:one more", now.Add(4*time.Minute)) == nil || len(usages) > 2 {
		t.Errorf("%d idle principals are kept", len(usages))
	}
	usages = kept
}

// An edge keeps its tokens' counts: those must not be forgotten, or a reload
// would not know what is open.
func TestUsageOfTokensStays(t *testing.T) {
	logged(t)
	usageMu.Lock()
	kept := usages
	usages = map[string]*usage{}
	swept = time.Time{}
	usageMu.Unlock()
	b := newHolding()
	c := config()
	c.Tokens[0].MaxStreams = 1
	h := start(t, c, b)
	e := &edge{name: t.Name()}
	for i := 0; i < maxUsages; i++ {
		usageOf(e, "oauth:"+strconv.Itoa(i), time.Now())
	}
	if len(usages) >= maxUsages {
		t.Fatal("nothing was forgotten")
	}
	done := make(chan struct{}, 1)
	go serveHeld(h, get("/mcp/sse"), done)
	<-b.entered
	if rec := do(start(t, c, &seen{}), get("/mcp/sse")); rec.Code != 429 {
		t.Errorf("after a reload one more stream is let through: status %d", rec.Code)
	}
	close(b.release)
	<-done
	usages = kept
}

func wrong(address, forwarded string) *http.Request {
	r := post("/mcp/mcp", readFile)
	r.Header.Set("Authorization", "Bearer "+otherToken)
	r.RemoteAddr = address
	if forwarded != "" {
		r.Header.Set("X-Forwarded-For", forwarded)
	}
	return r
}

// While an address is locked out, whoever comes from it with a token that was
// right still learns that it has to be renewed (behind a tunnel, all have one
// address).
func TestExpiredIsNotLockedOut(t *testing.T) {
	logged(t)
	failures = &recent{} // it outlives an earlier run
	p := newIDP(t)
	c := p.config()
	c.FailuresPerMinute = 1
	c.Tokens[0].Expires = "2020-01-01"
	h := start(t, c, &seen{})
	old := p.sign(t, head("ES256", "e"), p.claimsFor(map[string]interface{}{"exp": time.Now().Unix() - 3600}))
	for i, status := range []int{401, 429} {
		if rec := do(h, bearing(otherToken)); rec.Code != status {
			t.Fatalf("wrong token %d: status %d", i, rec.Code)
		}
	}
	for _, text := range []string{old, clientToken, old} {
		rec := do(h, bearing(text))
		if rec.Code != 401 || !strings.Contains(rec.Header().Get("WWW-Authenticate"), "has expired") {
			t.Errorf("status %d, %s", rec.Code, rec.Header().Get("WWW-Authenticate"))
		}
	}
	if rec := do(h, bearing(otherToken)); rec.Code != 429 {
		t.Errorf("then the wrong token again: status %d", rec.Code)
	}
}

func TestLockOut(t *testing.T) {
	logged(t)
	failures = &recent{} // it outlives an earlier run
	c := config()
	c.FailuresPerMinute = 3
	h := start(t, c, &seen{})
	for i := 0; i < 3; i++ {
		if rec := do(h, wrong("192.0.2.1:1", "")); rec.Code != 401 {
			t.Fatalf("failure %d: status %d", i, rec.Code)
		}
	}
	rec := do(h, wrong("192.0.2.1:2", "203.0.113.9"))
	if rec.Code != 429 || rec.Header().Get("Retry-After") == "" {
		t.Errorf("status %d, Retry-After %q", rec.Code, rec.Header().Get("Retry-After"))
	}
	r := post("/mcp/mcp", readFile)
	r.RemoteAddr = "192.0.2.1:3"
	if rec := do(h, r); rec.Code != 200 {
		t.Errorf("a right token from that address: status %d", rec.Code)
	}
	r.Header.Del("Authorization")
	if rec := do(h, r); rec.Code != 401 {
		t.Errorf("no token from that address: status %d", rec.Code)
	}
	if rec := do(h, wrong("192.0.2.2:1", "")); rec.Code != 401 {
		t.Errorf("another address: status %d", rec.Code)
	}
}

func TestClientAddress(t *testing.T) {
	rows := []struct {
		remote, forwarded string
		trust             bool
		want              string
	}{
		{"192.0.2.1:1", "203.0.113.9", false, "192.0.2.1"},
		{"192.0.2.1:1", "203.0.113.9", true, "203.0.113.9"},
		{"192.0.2.1:1", "10.0.0.1, 203.0.113.9", true, "203.0.113.9"},
		{"192.0.2.1:1", "rubbish", true, "192.0.2.1"},
		{"192.0.2.1:1", "", true, "192.0.2.1"},
		{"[2001:db8:1:2:3::4]:1", "", false, "2001:db8:1:2::/64"},
		{"[2001:db8:1:2:ffff::4]:1", "", false, "2001:db8:1:2::/64"},
		{"192.0.2.1:1", "2001:db8:1:2::7", true, "2001:db8:1:2::/64"},
		{"[::ffff:192.0.2.1]:1", "", false, "192.0.2.1"},
		{"[fe80::1%eth0]:1", "", false, "fe80::/64"},
		{"@", "", false, "@"},
	}
	for i := range rows {
		if got := clientAddress(wrong(rows[i].remote, rows[i].forwarded), rows[i].trust); got != rows[i].want {
			t.Errorf("%s forwarded for %q: %s, want %s", rows[i].remote, rows[i].forwarded, got, rows[i].want)
		}
	}
}

func TestFailuresAreBounded(t *testing.T) {
	r := &recent{}
	for i := 0; i < 3*maxRecent; i++ {
		r.put(strconv.Itoa(i), i)
	}
	if n := len(r.newer) + len(r.older); n > 2*maxRecent {
		t.Errorf("%d addresses are remembered", n)
	}
	if r.get(strconv.Itoa(3*maxRecent-1)) != 3*maxRecent-1 {
		t.Error("the newest is forgotten")
	}
}

package plugin

import (
	"crypto/sha256"
	"math"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Headers that are known are those that the whole way lets pass: each request
// gets the same answer, and the backend the same headers, whether its like was
// seen before or not.
func TestKnownPair(t *testing.T) {
	logged(t)
	settings := func(c *Config) {
		c.FailuresPerMinute = 1000000
		c.AllowedOrigins = []string{"https://a.example"}
		c.Tokens[0].RequestsPerMinute = 1000000
		c.Tokens = append(c.Tokens, Token{Name: "b", Value: otherToken, Tools: []string{"*"},
			RequestsPerMinute: 1000000},
			Token{Name: "old", Value: "old-old-old-old-old-old-old-old-old", Tools: []string{"*"},
				Expires: "2020-01-01"})
	}
	learned := newPair(t, settings)
	fresh := newPair(t, settings)
	values := map[string][]string{
		"Authorization": {"Bearer " + clientToken, "Bearer " + clientToken, "Bearer " + clientToken,
			"Bearer " + otherToken, "bearer " + clientToken, "Bearer  " + clientToken, "Bearer " + clientToken + " \t",
			" Bearer " + clientToken, "Bearer " + serverToken,
			"Bearer old-old-old-old-old-old-old-old-old", "Basic x", ""},
		"Content-Type": {"application/json", "application/json", "application/json",
			"application/json; charset=utf-8", "text/plain"},
		"Origin":           {"https://a.example", "https://b.example", "https://a.example ", " "},
		"Content-Encoding": {"gzip"}, "Upgrade": {"h2c", "websocket"}, "Cookie": {"a=b"}, "X_Sallyport-Tools": {"*"},
		"X-Sallyport-Principal": {"token:b"},
		"X-Any":                 {"1", "2"}, "Mcp-Method": {"tools/call", "tools/list"},
		"Accept": {"application/json, text/event-stream"}, "User-Agent": {"a", "b"},
	}
	rare := map[string]bool{"Content-Encoding": true, "Upgrade": true, "Cookie": true, "X_Sallyport-Tools": true,
		"X-Sallyport-Principal": true, "Mcp-Method": true, "X-Any": true}
	var sorted []string
	for key := range values {
		sorted = append(sorted, key)
	}
	sort.Strings(sorted)
	r := rand.New(rand.NewSource(2))
	hits := 0
	for i := 0; i < 3000; i++ {
		head := http.Header{}
		head.Set("Authorization", "Bearer "+clientToken)
		head.Set("Content-Type", "application/json")
		names := sorted
		if i < 16*len(sorted) { // each header once beside what passes, for both to see
			names = sorted[i/16 : i/16+1]
		}
		for _, key := range names {
			of := values[key]
			delete(head, key)
			if n := r.Intn(20); len(names) == 1 || (rare[key] && n == 0) || (!rare[key] && n < 17) {
				head[key] = []string{of[r.Intn(len(of))]}
				if r.Intn(60) == 0 {
					head[key] = append(head[key], of[r.Intn(len(of))])
				}
			}
		}
		method := []string{"POST", "POST", "DELETE", "GET", "PUT"}[r.Intn(5)]
		path := []string{"/mcp/mcp", "/mcp/mcp", "/mcp/mcp", "/mcp/mcp", "/mcp/mcp", "/mcp", "/mcp/a/../b",
			"/other"}[r.Intn(8)]
		body := []string{"", readFile, readFile, named("run_command"), "{"}[r.Intn(5)]
		if i < 16*len(sorted) {
			method = "POST"
			path = "/mcp/mcp"
			body = readFile
		}
		never := fresh.table.Load().(*table)
		never.posts = map[[32]byte]*known{}
		never.deletes = map[[32]byte]*known{}
		var said [2]string
		for way, e := range []*edge{learned, fresh} {
			q := httptest.NewRequest(method, path, strings.NewReader(body))
			for key := range head {
				q.Header[key] = append([]string{}, head[key]...)
			}
			got := "nothing"
			e.next = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				r.Header.Del("X-Sallyport-Request")
				if head.Get("Content-Type") != "" {
					rw.Header().Set("Content-Type", "application/json")
				}
				rw.WriteHeader(202)
				var b strings.Builder
				must(t, r.Header.Write(&b))
				got = b.String()
			})
			rec := httptest.NewRecorder()
			before := len(e.table.Load().(*table).posts) + len(e.table.Load().(*table).deletes)
			e.ServeHTTP(rec, q)
			if way == 0 && rec.Code == 202 &&
				before == len(e.table.Load().(*table).posts)+len(e.table.Load().(*table).deletes) {
				hits++
			}
			said[way] = strconv.Itoa(rec.Code) + " " + rec.Body.String() + " " + got
		}
		if said[0] != said[1] {
			t.Errorf("%s %s %v %q: seen before %s, never seen %s", method, path, head, body, said[0], said[1])
		}
	}
	if hits < 100 {
		t.Errorf("only %d requests had known headers", hits)
	}
}

// What is known ends with its secrets, with its token's last day, and never grows
// without bound.
func TestKnownEnds(t *testing.T) {
	logged(t)
	file := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(file, []byte(clientToken), 0o600))
	e := newPair(t, func(c *Config) {
		c.Tokens[0].Value = ""
		c.Tokens[0].ValueFile = file
		c.Tokens[0].RequestsPerMinute = 1000000
	})
	code := func() int {
		rec := httptest.NewRecorder()
		e.ServeHTTP(rec, post("/mcp/mcp", readFile))
		return rec.Code
	}
	first := code()
	seen := len(e.table.Load().(*table).posts)
	if first != 200 || seen != 1 || code() != 200 {
		t.Fatalf("status %d, %d known", first, seen)
	}
	e.tokens[0].who.until = time.Now().UnixNano() - 1
	e.tokens[0].until = e.tokens[0].who.until
	if expired := code(); expired != 401 {
		t.Errorf("a known token that has expired: %d", expired)
	}
	e.tokens[0].who.until = math.MaxInt64
	e.tokens[0].until = math.MaxInt64
	must(t, os.WriteFile(file, []byte(otherToken), 0o600))
	e.keep = 0 // as a second later
	if rotated := code(); rotated != 401 {
		t.Errorf("a known token that was replaced: %d", rotated)
	}
	table := &table{posts: map[[32]byte]*known{}}
	c := &call{method: "POST", secrets: table, r: post("/mcp/mcp", readFile)}
	_ = c.r.Header.WriteSubset(&c.head, ordinary)
	for i := 0; i < maxKnown+100; i++ {
		c.sum = sha256.Sum256([]byte(strconv.Itoa(i)))
		remember(c)
	}
	if len(table.posts) > maxKnown {
		t.Errorf("%d are remembered", len(table.posts))
	}
}

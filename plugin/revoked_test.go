package plugin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// granting is a configuration whose tokens carry their grant, with its revokedFile.
func (p *idp) granting(t *testing.T) (*Config, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "revoked")
	write(t, file, "")
	c := p.config()
	c.OAuth.GrantClaim = "grant"
	c.OAuth.RevokedFile = file
	return c, file
}

// soon makes it time to read the file again, so that no test waits.
func soon(h http.Handler) {
	r := h.(*edge).oauth.revoked
	r.mu.Lock()
	r.read = 0
	r.mu.Unlock()
}

func TestRevokedFile(t *testing.T) {
	log := logged(t)
	p := newIDP(t)
	c, file := p.granting(t)
	s := &seen{}
	h := start(t, c, s)
	for _, row := range []struct {
		text   string // "-": no file
		status int
	}{
		{"", 200}, {"g1\n", 401}, {"g2\n", 200}, {"g10\nxg1\n", 200}, {"g2\ng1\n", 401}, {"g2\ng1", 503}, {"g2\n",
			200}, {"-", 503}, {"g1 \n", 503},
		{"\n", 503}, {"g2\r\n", 503}, {"\x00", 503}, {strings.Repeat("g2\n", 1<<19), 503}, {"", 200},
	} {
		write(t, file, row.text)
		if row.text == "-" {
			must(t, os.Remove(file))
		}
		soon(h)
		code, body, header := p.with(t, h, "read_file", map[string]interface{}{"grant": "g1"})
		if code != row.status {
			t.Errorf("%.20q: status %d %s, want %d", row.text, code, body, row.status)
		}
		if code == 401 && !strings.Contains(header.Get("WWW-Authenticate"),
			`error="invalid_token", error_description="the grant of this token was revoked"`) {
			t.Errorf("%q: %v", row.text, header)
		}
		if rec := do(h, post("/mcp/mcp", readFile)); rec.Code != 200 {
			t.Errorf("%.20q: a static token gets %d", row.text, rec.Code)
		}
	}
	if text := log.String(); strings.Count(text, "nobody with a token of the issuer is let in") != 2 {
		t.Errorf("log: %s", text)
	}
	if got := s.request.Header.Get("X-Sallyport-Principal"); got != "token:poke" {
		t.Errorf("principal %q", got)
	}
	p.with(t, h, "read_file", map[string]interface{}{"grant": "g1"})
	if got := s.request.Header.Get("X-Sallyport-Principal"); got != "oauth:alice#g1" {
		t.Errorf("principal %q", got)
	}
	for _, grant := range []interface{}{nil, "", "a#b", "a b", 7, strings.Repeat("a", 129)} {
		if code, _, _ := p.with(t, h, "read_file", map[string]interface{}{"grant": grant}); code != 401 {
			t.Errorf("grant %v: status %d", grant, code)
		}
	}
}

// A revoked grant is refused within a second, although its token is remembered.
func TestRevokedInTime(t *testing.T) {
	logged(t)
	p := newIDP(t)
	c, file := p.granting(t)
	h := start(t, c, &seen{})
	text := p.sign(t, head("ES256", "e"), p.claimsFor(map[string]interface{}{"grant": "g1"}))
	if rec := do(h, bearing(text)); rec.Code != 200 {
		t.Fatalf("status %d", rec.Code)
	}
	write(t, file, "g1\n")
	since := time.Now()
	for begun := time.Duration(0); do(h, bearing(text)).Code != 401; begun = time.Since(since) {
		if begun > time.Second { // when the request began: how long it took is the machine's
			t.Fatal("it still passes after a second")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// streaming writes one event, does something, and writes another.
func streaming(between func()) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		rw.WriteHeader(200)
		_, _ = rw.Write([]byte("data: first\n\n"))
		between()
		if _, err := rw.Write([]byte(": keep-alive\n\n")); err == nil {
			_, _ = rw.Write([]byte("data: second\n\n"))
		}
	}
}

// An open stream ends with what allowed it.
func TestStreamsEnd(t *testing.T) {
	logged(t)
	p := newIDP(t)
	c, file := p.granting(t)
	c.Tokens[0].Expires = "2200-01-01"
	var h http.Handler
	for _, row := range []struct {
		desc    string
		request func() *http.Request
		between func()
		ends    bool
	}{
		{"a token that stays", func() *http.Request { return get("/mcp/sse") }, func() {}, false},
		{"a token's last day", func() *http.Request { return get("/mcp/sse") },
			func() { h.(*edge).tokens[0].who.until = 1 }, true},
		{"a grant that stays", p.stream(t, "GET"), func() {}, false},
		{"a revoked grant", p.stream(t, "GET"), func() { write(t, file, "grant\n"); soon(h) }, true},
		{"a revoked grant, answered to a POST", p.stream(t, "POST"), func() { write(t, file, "grant\n"); soon(h) },
			true},
		{"another grant", p.stream(t, "POST"), func() { write(t, file, "other\n"); soon(h) }, false},
		{"an unreadable list", p.stream(t, "GET"), func() { must(t, os.Remove(file)); soon(h) }, true},
	} {
		write(t, file, "")
		handler, err := New(context.Background(), streaming(row.between), c, t.Name())
		must(t, err)
		h = handler
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, row.request())
		if body := rec.Body.String(); !strings.Contains(body, "first") || strings.Contains(body, "second") == row.ends {
			t.Errorf("%s: %d %q", row.desc, rec.Code, body)
		}
	}
}

// stream is a request that can be answered by a stream.
func (p *idp) stream(t *testing.T, method string) func() *http.Request {
	return func() *http.Request {
		r := bearing(p.sign(t, head("ES256", "e"), p.claimsFor(map[string]interface{}{"grant": "grant"})))
		if method == "GET" {
			r.Method = "GET"
			r.Body = http.NoBody
			r.ContentLength = 0
		}
		return r
	}
}

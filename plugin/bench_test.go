package plugin

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// benched is a handler over a backend that does nothing, logging to nowhere.
func benched(b *testing.B, backend http.Handler, change func(*Config)) http.Handler {
	before := out
	out = io.Discard
	divert(out)
	b.Cleanup(func() { out = before; divert(before) })
	c := config()
	c.Tokens[0].RequestsPerMinute = 1000000000
	c.AllowedOrigins = []string{"https://a.example"}
	change(c)
	h, err := New(context.Background(), backend, c, b.Name())
	if err != nil {
		b.Fatal(err)
	}
	return h
}

func nothing(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(202) }

// BenchmarkBearer is authentication, limits and headers: a request without body.
func BenchmarkBearer(b *testing.B) {
	h := benched(b, http.HandlerFunc(nothing), func(c *Config) { c.AuditLog = false })
	rec := httptest.NewRecorder()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		r := httptest.NewRequest("DELETE", "/mcp/mcp", nil)
		r.Header.Set("Authorization", "Bearer "+clientToken)
		h.ServeHTTP(rec, r)
	}
}

// BenchmarkEverything adds Origin, the policy of 1 KiB of JSON, and the audit.
func BenchmarkEverything(b *testing.B) {
	h := benched(b, http.HandlerFunc(nothing), func(*Config) {})
	body := strings.Replace(readFile, `"path":"a"`, `"path":"`+strings.Repeat("a", 900)+`"`, 1)
	rec := httptest.NewRecorder()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		r := post("/mcp/mcp", body)
		r.Header.Set("Origin", "https://a.example")
		h.ServeHTTP(rec, r)
	}
}

// BenchmarkKnownJWT is BenchmarkBearer with an access token that was verified
// before, whose grant is looked up in the list of those that were revoked.
func BenchmarkKnownJWT(b *testing.B) {
	benchJWT(b, func(text string) string { return text })
}

// BenchmarkForgedJWT is the refusal of a token that no key of the issuer signed.
func BenchmarkForgedJWT(b *testing.B) {
	benchJWT(b, func(text string) string { return text[:len(text)-8] + "AAAAAAAA" })
}

func benchJWT(b *testing.B, change func(string) string) {
	p := newIDP(b)
	list := filepath.Join(b.TempDir(), "revoked")
	must(b, os.WriteFile(list, []byte(strings.Repeat("0123456789abcdef0123\n", 1000)), 0o600))
	h := benched(b, http.HandlerFunc(nothing), func(c *Config) {
		c.AuditLog = false
		c.OAuth = oauthConfig(p.server.URL)
		c.OAuth.GrantClaim = "grant"
		c.OAuth.RevokedFile = list
		c.OAuth.RequestsPerMinute = 1000000000
	})
	good := p.sign(b, head("ES256", "e"), p.claimsFor(map[string]interface{}{"grant": "g"}))
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, bearing(good)) // fetches the keys
	text := change(good)
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		r := httptest.NewRequest("DELETE", "/mcp/mcp", nil)
		r.Header.Set("Authorization", "Bearer "+text)
		h.ServeHTTP(rec, r)
	}
}

// BenchmarkRequest is what the two above spend on making their requests.
func BenchmarkRequest(b *testing.B) {
	for i := 0; i < b.N; i++ {
		r := httptest.NewRequest("DELETE", "/mcp/mcp", nil)
		r.Header.Set("Authorization", "Bearer "+clientToken)
	}
}

// BenchmarkEvent is one event of a stream behind its endpoint.
func BenchmarkEvent(b *testing.B) {
	event := []byte("event: message\ndata: {\"jsonrpc\":\"2.0\"}\n\n")
	stream := func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = rw.Write([]byte("event: endpoint\ndata: /mcp/m\n\n"))
		b.ResetTimer()
		for i := 0; i < b.N; i++ {
			_, _ = rw.Write(event)
		}
	}
	h := benched(b, http.HandlerFunc(stream), func(*Config) {})
	h.ServeHTTP(httptest.NewRecorder(), get("/mcp/sse"))
}

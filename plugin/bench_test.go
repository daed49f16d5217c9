package plugin

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
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

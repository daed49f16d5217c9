package plugin

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

const (
	clientToken = "client-token-0123456789-0123456789"
	otherToken  = "other-token-0123456789-0123456789-"
	serverToken = "server-token-0123456789-0123456789"
)

// seen is what the backend got.
type seen struct {
	mu      sync.Mutex
	calls   int
	request *http.Request
	body    string
}

func (s *seen) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.calls++
	s.request, s.body = r, string(body)
	s.mu.Unlock()
	rw.Header().Set("Content-Type", "application/json")
	_, _ = rw.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
}

// lines collects what is logged.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	flushLines()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// logged diverts the log of the package for one test.
func logged(t *testing.T) *lines {
	before := out
	l := &lines{}
	out = l
	divert(l)
	t.Cleanup(func() { out = before; divert(before) })
	return l
}

// divert writes the lines that wait to another place from now on.
func divert(to io.Writer) {
	flushLines()
	linesMu.Lock()
	waiting.Reset(to)
	linesMu.Unlock()
}

// config is a sound configuration with the name of the test, so that no two
// tests share limits.
func config() *Config {
	c := CreateConfig()
	c.Backend = "sandbox"
	c.PathPrefix = "/mcp"
	c.BackendToken = serverToken
	c.Tokens = []Token{{Name: "poke", Value: clientToken, Tools: []string{"read_file", "run_command"}}}
	return c
}

func start(t *testing.T, c *Config, next http.Handler) http.Handler {
	t.Helper()
	h, err := New(context.Background(), next, c, t.Name())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// post is a tools/call as a modern client sends it.
func post(path, body string) *http.Request {
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+clientToken)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	return r
}

func do(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec
}

const readFile = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"a"}}}`

func TestForwards(t *testing.T) {
	log := logged(t)
	s := &seen{}
	rec := do(start(t, config(), s), post("/mcp/mcp?x=1", readFile))
	if rec.Code != 200 || s.body != readFile {
		t.Fatalf("status %d, the backend got %q", rec.Code, s.body)
	}
	h := s.request.Header
	for key, want := range map[string]string{
		"Authorization": "Bearer " + serverToken, "X-Sallyport-Principal": "token:poke",
		"X-Sallyport-Tools": "read_file,run_command",
	} {
		if len(h[key]) != 1 || h[key][0] != want {
			t.Errorf("%s is %q, want %q", key, h[key], want)
		}
	}
	if _, ok := h["X-Sallyport-Ask"]; ok {
		t.Error("X-Sallyport-Ask is there without an asking grant")
	}
	if s.request.RequestURI != "/mcp/mcp?x=1" {
		t.Errorf("RequestURI is %q", s.request.RequestURI)
	}
	line := log.String()
	for _, want := range []string{`"principal":"token:poke"`, `"method":"tools/call"`, `"tool":"read_file"`, `"verdict":"allowed"`} {
		if !strings.Contains(line, want) {
			t.Errorf("the audit line %s lacks %s", line, want)
		}
	}
	if strings.Contains(line, clientToken) || strings.Contains(line, serverToken) {
		t.Errorf("a token is logged: %s", line)
	}
}

func TestEndpoint(t *testing.T) {
	logged(t)
	c := config()
	c.Backend = "other"
	c.BackendAuth, c.BackendToken = "none", ""
	c.BackendPath = "/"
	next := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = rw.Write([]byte("event: endpoint\ndata: /messages?id=1\n\n"))
		_, _ = rw.Write([]byte("event: message\ndata: {}\n\n"))
	})
	r := httptest.NewRequest("GET", "/mcp/sse", nil)
	r.Header.Set("Authorization", "Bearer "+clientToken)
	rec := do(start(t, c, next), r)
	if want := "event: endpoint\ndata: /mcp/messages?id=1\n\nevent: message\ndata: {}\n\n"; rec.Body.String() != want {
		t.Errorf("got %q, want %q", rec.Body.String(), want)
	}
}

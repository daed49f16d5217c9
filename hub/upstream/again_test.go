package upstream_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/hub/upstream"
	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
)

// forgetful is a streamable server that can lose its sessions.
type forgetful struct {
	mu     sync.Mutex
	n      int // of the session in force
	refuse func(w http.ResponseWriter)
	calls  atomic.Int64 // that were run
	broken bool         // every call fails with 500, though the session is known
}

func (f *forgetful) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	m, err := jsonrpc.Parse(body)
	switch {
	case r.Method != http.MethodPost || err != nil:
		w.WriteHeader(405)
		return
	case m.Method == "initialize":
		f.n++
		w.Header().Set("Mcp-Session-Id", fmt.Sprint(f.n))
	case r.Header.Get("Mcp-Session-Id") != fmt.Sprint(f.n):
		f.refuse(w)
		return
	case !m.IsRequest():
		w.WriteHeader(202)
		return
	case m.Method == "tools/call" && f.broken:
		w.WriteHeader(500)
		return
	case m.Method == "tools/call":
		f.calls.Add(1)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(jsonrpc.Answer(m.ID(), []byte(`{"protocolVersion":"2025-06-18"}`)))
}

func (f *forgetful) greeted() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

const greeting = `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}`

func dial(t *testing.T, d upstream.Dial) upstream.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := d(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// exchange sends a message and returns the next response.
func exchange(t *testing.T, c upstream.Conn, raw string) string {
	t.Helper()
	if err := c.Send(upstream.Outgoing{Raw: []byte(raw)}); err != nil {
		t.Fatal(err)
	}
	for {
		got, err := c.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if m, err := jsonrpc.Parse(got); err == nil && m.IsResponse() {
			return string(got)
		}
	}
}

// A server that was restarted says that it does not know us in many ways: each
// time it is initialised again, once, and the call that met it is run once. A server
// that knows us and fails is not initialised again.
func TestForgottenSessionIsGreetedAgain(t *testing.T) {
	text := func(status int, body string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { w.WriteHeader(status); fmt.Fprint(w, body) }
	}
	for name, refuse := range map[string]func(http.ResponseWriter){
		"404":                    text(404, "session not found"),
		"404 with an error":      text(404, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`),
		"400 without an id":      text(400, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`),
		"401":                    text(401, ""),
		"410":                    text(410, "gone"),
		"403":                    text(403, "Invalid session"),
		"409 (session mismatch)": text(409, "session mismatch"),
		"422 (rmcp)":             text(422, "Unexpected message, expect initialize request"),
		"500 of an old library":  text(500, "Internal Server Error"),
	} {
		f := &forgetful{refuse: refuse}
		c := dial(t, upstream.HTTP(remote(t, f.ServeHTTP)))
		exchange(t, c, greeting)
		f.mu.Lock()
		f.n = 10 // a restart: the old session is unknown
		f.mu.Unlock()
		call := `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"x"}}`
		for range 2 {
			if got := exchange(t, c, call); !strings.Contains(got, `"id":8,"result"`) {
				t.Errorf("%s: %s", name, got)
			}
		}
		if n := f.greeted(); n != 11 || f.calls.Load() != 2 {
			t.Errorf("%s: greeted %d times, %d calls run", name, n-10, f.calls.Load())
		}
	}
	f := &forgetful{broken: true}
	c := dial(t, upstream.HTTP(remote(t, f.ServeHTTP)))
	exchange(t, c, greeting)
	if got := exchange(t, c, `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"x"}}`); !strings.Contains(got, "500") || f.greeted() != 1 {
		t.Errorf("a call that fails: greeted %d times, %s", f.greeted(), got)
	}
}

// A stream that the server ends early, with an id, is taken up where it was.
func TestStreamIsResumed(t *testing.T) {
	for _, resumable := range []bool{true, false} {
		asked := ""
		c := dial(t, upstream.HTTP(remote(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			if r.Method == http.MethodGet {
				asked = r.Header.Get("Last-Event-ID")
				fmt.Fprint(w, "id: 2\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n")
				return
			}
			if resumable {
				fmt.Fprint(w, "id: 1\nretry: 10\ndata: \n\n")
			}
		})))
		got := exchange(t, c, request)
		if resumable && (!strings.Contains(got, `"result"`) || asked != "1") || !resumable && !strings.Contains(got, "ended before the answer") {
			t.Errorf("resumable %v: %s, asked for what follows %q", resumable, got, asked)
		}
	}
}

// An event is there as soon as its blank line is, whatever ends the lines.
func TestEventIsNotHeldBack(t *testing.T) {
	for _, end := range []string{"\r", "\n", "\r\n"} {
		c := dial(t, upstream.SSE(remote(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				w.WriteHeader(202)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			text := "event: endpoint\ndata: /m\n\nid: x\n: comment\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":{}}\n\n"
			fmt.Fprint(w, "\xef\xbb\xbf"+strings.ReplaceAll(text, "\n", end))
			w.(http.Flusher).Flush()
			<-r.Context().Done() // and no byte more
		})))
		got := make(chan string, 1)
		go func() {
			raw, _ := c.Receive()
			got <- string(raw)
		}()
		select {
		case raw := <-got:
			if m, err := jsonrpc.Parse([]byte(raw)); err != nil || string(m.ID()) != "1" {
				t.Errorf("%q: %s", end, raw)
			}
		case <-time.After(time.Minute):
			t.Errorf("%q: the event is held back", end)
		}
	}
}

// A byte order mark, a number written as a string or float, and a type in other cases
// are no reason to lose an answer.
func TestHarmlessSlips(t *testing.T) {
	for _, body := range []string{"\xef\xbb\xbf" + `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":"1","result":{}}`, `{"jsonrpc":"2.0","id":1.0,"result":{}}`} {
		for _, kind := range []string{"application/json", "text/event-stream", "Text/Event-Stream; charset=UTF-8"} {
			c := dial(t, upstream.HTTP(remote(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", kind)
				if kind == "application/json" {
					fmt.Fprint(w, body)
					return
				}
				fmt.Fprint(w, "\xef\xbb\xbfdata: "+strings.TrimPrefix(body, "\xef\xbb\xbf")+"\n\n")
			})))
			if got := exchange(t, c, request); !strings.Contains(got, `"result"`) {
				t.Errorf("%s: %s", kind, got)
			}
		}
	}
}

// A greeting follows a redirect within the origin; what may have an effect says
// where the entry should point, and another origin gets nothing.
func TestRedirectWithinTheOrigin(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another origin was asked with %v", r.Header)
	}))
	t.Cleanup(elsewhere.Close)
	f := &forgetful{}
	serve := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mcp" {
			http.Redirect(w, r, "/mcp/?key=of-the-owner", http.StatusTemporaryRedirect)
			return
		}
		f.ServeHTTP(w, r)
	}
	c := dial(t, upstream.HTTP(remote(t, serve)))
	if got := exchange(t, c, greeting); !strings.Contains(got, `"result"`) {
		t.Errorf("the greeting: %s", got)
	}
	if got := exchange(t, c, `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{}}`); !strings.Contains(got, `"result"`) || f.calls.Load() != 1 {
		t.Errorf("a call after it: %s", got)
	}
	call := `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{}}`
	for want, to := range map[string]string{"/mcp/ into the entry": "/mcp/?key=of-the-owner", "another origin (" + elsewhere.URL: elsewhere.URL + "/x?key=of-the-owner"} {
		c := dial(t, upstream.HTTP(remote(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, 308) })))
		if got := exchange(t, c, call); !strings.Contains(got, want) || strings.Contains(got, "of-the-owner") {
			t.Errorf("want %s, got %s", want, got)
		}
	}
	stream := dial(t, upstream.SSE(remote(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mcp" {
			http.Redirect(w, r, "/mcp/", http.StatusPermanentRedirect)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: endpoint\ndata: m\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})))
	if stream == nil {
		t.Error("no stream")
	}
}

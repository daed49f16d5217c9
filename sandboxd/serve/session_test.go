package serve_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/sandboxd/serve"
)

// A raw HTTP+SSE stream, as curl sees it.
type stream struct {
	resp     *http.Response
	lines    chan string // closed at the stream's end
	endpoint string
	close    func()
}

func openStream(t *testing.T, s *server, path string, h http.Header) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "GET", s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = h.Clone()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	st := &stream{resp: resp, lines: make(chan string, 1000), close: cancel}
	go func() {
		defer close(st.lines)
		for scan := bufio.NewScanner(resp.Body); scan.Scan(); {
			st.lines <- scan.Text()
		}
	}()
	return st
}

func openSSE(t *testing.T, s *server, path string, h http.Header) *stream {
	t.Helper()
	st := openStream(t, s, path, h)
	if st.resp.StatusCode != 200 {
		t.Fatalf("GET %s: %d", path, st.resp.StatusCode)
	}
	if event := st.line(t); event != "event: endpoint" {
		t.Fatalf("the first line is %q", event)
	}
	st.endpoint = strings.TrimPrefix(st.line(t), "data: ")
	st.line(t)
	return st
}

func (st *stream) line(t *testing.T) string {
	t.Helper()
	return receive(t, "a line", st.lines)
}

// message skips to the next message and returns it.
func (st *stream) message(t *testing.T) string {
	t.Helper()
	for {
		if data, ok := strings.CutPrefix(st.line(t), "data: "); ok {
			return data
		}
	}
}

func TestEndpoint(t *testing.T) {
	s := start(t, nil)
	for _, path := range []string{"/sse", "/sse/", "/sse?token=x"} {
		st := openSSE(t, s, path, as("", ""))
		if !strings.HasPrefix(st.endpoint, "/mcp-sandbox/sse?sessionid=") {
			t.Errorf("%s: the endpoint is %q", path, st.endpoint)
		}
		for name, want := range map[string]string{"Content-Type": "text/event-stream", "X-Accel-Buffering": "no", "Cache-Control": "no-cache, no-transform"} {
			if got := st.resp.Header.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		if resp, body := send(t, "POST", s.Root+st.endpoint, jsonHeader(as("", "")), initialize); resp.StatusCode != 202 || body != "" {
			t.Errorf("POST to the endpoint: %d %q", resp.StatusCode, body)
		}
		if got := st.message(t); !strings.Contains(got, `"serverInfo"`) {
			t.Errorf("the answer is %s", got)
		}
	}
	for body, status := range map[string]int{"{": 400, "[]": 400, `{"jsonrpc":"2.0"}`: 400} {
		st := openSSE(t, s, "/sse", as("", ""))
		if resp, _ := send(t, "POST", s.Root+st.endpoint, jsonHeader(as("", "")), body); resp.StatusCode != status {
			t.Errorf("POST of %s: %d, want %d", body, resp.StatusCode, status)
		}
		if resp, _ := send(t, "POST", s.Root+st.endpoint, with(as("", ""), "Content-Type", "text/plain"), initialize); resp.StatusCode != 415 {
			t.Errorf("POST of text: %d, want 415", resp.StatusCode)
		}
	}
}

// A session answers to the principal that opened it and to nobody else.
func TestSessionTheft(t *testing.T) {
	s := start(t, nil)
	alice, mallory := as("token:alice", "*"), as("token:mallory", "*")
	st := openSSE(t, s, "/sse", alice)
	call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read_file","arguments":{"text":"stolen"}}}`
	if resp, _ := send(t, "POST", s.Root+st.endpoint, jsonHeader(mallory), call); resp.StatusCode != 403 {
		t.Errorf("SSE: mallory got %d", resp.StatusCode)
	}
	if resp, _ := send(t, "POST", s.Root+st.endpoint, jsonHeader(alice), initialize); resp.StatusCode != 202 {
		t.Errorf("SSE: alice got %d", resp.StatusCode)
	}
	if got := st.message(t); !strings.Contains(got, "serverInfo") {
		t.Errorf("SSE: alice's first message is %s", got)
	}

	resp, _ := send(t, "POST", s.URL+"/mcp", jsonHeader(alice), initialize)
	id := resp.Header.Get("Mcp-Session-Id")
	for _, method := range []string{"POST", "GET", "DELETE"} {
		if resp, _ := send(t, method, s.URL+"/mcp", jsonHeader(mallory, "Mcp-Session-Id", id), call); resp.StatusCode != 403 {
			t.Errorf("streamable %s: mallory got %d", method, resp.StatusCode)
		}
	}
	if resp, body := send(t, "POST", s.URL+"/mcp", jsonHeader(alice, "Mcp-Session-Id", id), call); resp.StatusCode != 200 || !strings.Contains(body, "stolen") {
		t.Errorf("streamable: alice got %d %s", resp.StatusCode, body)
	}
	// A session of one transport is none of the other.
	if resp, _ := send(t, "POST", s.URL+"/sse?sessionid="+id, jsonHeader(alice), call); resp.StatusCode != 404 {
		t.Errorf("a streamable session over SSE: %d", resp.StatusCode)
	}
	if strings.Contains(s.audit.String(), "mallory") || strings.Contains(s.log.String(), id) {
		t.Errorf("audit %s\nlog %s", s.audit, s.log)
	}
}

func TestTooManySessions(t *testing.T) {
	s := start(t, func(set *serve.Settings) { set.MaxSessions = 2 })
	h := as("token:poke", "*")
	st := openSSE(t, s, "/sse", h)
	resp, _ := send(t, "POST", s.URL+"/mcp", jsonHeader(h), initialize)
	id := resp.Header.Get("Mcp-Session-Id")
	full := func() bool {
		resp, _ := send(t, "POST", s.URL+"/mcp", jsonHeader(h), initialize)
		return resp.StatusCode == 503 && resp.Header.Get("Retry-After") != ""
	}
	if !full() {
		t.Error("a third session was opened")
	}
	if resp, _ := send(t, "GET", s.URL+"/sse", h, ""); resp.StatusCode != 503 {
		t.Errorf("a third session over SSE: %d", resp.StatusCode)
	}
	if resp, _ := send(t, "POST", s.URL+"/mcp", jsonHeader(h, "Mcp-Session-Id", id), `{"jsonrpc":"2.0","id":2,"method":"ping"}`); resp.StatusCode != 200 {
		t.Errorf("an open session while there is no place: %d", resp.StatusCode)
	}
	if resp, _ := send(t, "DELETE", s.URL+"/mcp", jsonHeader(h, "Mcp-Session-Id", id), ""); resp.StatusCode != 204 {
		t.Errorf("DELETE: %d", resp.StatusCode)
	}
	eventually(t, "DELETE gives its place back", func() bool { return !full() })
	if !full() {
		t.Error("one place was given back, two were taken")
	}
	st.close()
	eventually(t, "a closed stream gives its place back", func() bool { return !full() })
}

// What is no session takes no place for longer than its request.
func TestFailedSessionsTakeNoPlace(t *testing.T) {
	s := start(t, func(set *serve.Settings) { set.MaxSessions = 1 })
	h := jsonHeader(as("", ""))
	for _, body := range []string{"{", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":1,"method":"initialize"}`} {
		if resp, got := send(t, "POST", s.URL+"/mcp", h, body); resp.StatusCode == 503 {
			t.Fatalf("%s: %s", body, got)
		}
	}
	for range 3 {
		if resp, body := modernCall(t, s, as("", ""), "tools/list", "", ""); resp.StatusCode != 200 {
			t.Fatalf("stateless: %d %s", resp.StatusCode, body)
		}
	}
	if resp, _ := send(t, "POST", s.URL+"/mcp", h, initialize); resp.StatusCode != 200 {
		t.Errorf("the only session: %d", resp.StatusCode)
	}
}

// A client that opens a stream and never reads cannot hold what is written for
// it indefinitely, nor disturb others.
func TestStalledReader(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a write deadline of 30 seconds")
	}
	t.Parallel()
	s := start(t, nil)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.Root, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.(*net.TCPConn).SetReadBuffer(4096)
	fmt.Fprintf(conn, "GET /mcp-sandbox/sse HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n\r\n", token)
	endpoint := ""
	for r := bufio.NewReaderSize(conn, 16); endpoint == ""; {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			endpoint = strings.TrimSpace(data)
		}
	}
	h := jsonHeader(as("", ""))
	send(t, "POST", s.Root+endpoint, h, initialize)
	before := runtime.NumGoroutine()
	// More than may wait for one reader ends its session, or its time to read: a POST
	// waits for a write that has begun.
	for i := range 20 {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"read_file","arguments":{"size":2000000}}}`, i+2)
		if resp, _ := send(t, "POST", s.Root+endpoint, h, body); resp.StatusCode != 202 {
			if resp.StatusCode == 404 && i > 0 {
				break
			}
			t.Fatalf("POST %d: %d", i, resp.StatusCode)
		}
	}
	c, _ := connect(t, s, "sse", as("", ""))
	if r, err := call(t, c, "read_file", map[string]any{"text": "x"}); err != nil || r.IsError {
		t.Errorf("another client: %v %v", r, err)
	}
	eventually(t, "the stalled session is gone", func() bool {
		resp, _ := send(t, "POST", s.Root+endpoint, h, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		return resp.StatusCode == 404
	})
	eventually(t, "its goroutines are gone", func() bool { return runtime.NumGoroutine() <= before+10 })
}

// The end of the server ends a stream in order, with a word.
func TestCloseEndsStreams(t *testing.T) {
	s := start(t, nil)
	h := as("", "")
	sse := openSSE(t, s, "/sse", h)
	resp, _ := send(t, "POST", s.URL+"/mcp", jsonHeader(h), initialize)
	get := openStream(t, s, "/mcp", with(h, "Accept", "text/event-stream", "Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id")))
	go s.Close()
	for name, st := range map[string]*stream{"sse": sse, "streamable": get} {
		var all []string
		for end := time.After(patience); ; {
			select {
			case line, ok := <-st.lines:
				if ok {
					all = append(all, line)
					continue
				}
			case <-end:
				t.Errorf("%s: the stream goes on", name)
			}
			break
		}
		if got := strings.Join(all, "\n"); !strings.Contains(got, ": the server is shutting down") {
			t.Errorf("%s: the stream ended with %q", name, got)
		}
		if _, err := io.ReadAll(st.resp.Body); err != nil {
			t.Errorf("%s: the stream was cut: %v", name, err)
		}
	}
}

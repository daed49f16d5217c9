package mcphttp_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/httpd"
	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
	"github.com/sallyport-dev/sallyport/internal/mcphttp"
	"github.com/sallyport-dev/sallyport/internal/session"
)

// frail panics at one method and answers any other.
type frail struct{}

func (f frail) Open(mcphttp.Push) mcphttp.Session { return f }
func (frail) Close()                              {}
func (frail) Gone() bool                          { return false }

func (f frail) Handle(ctx context.Context, req mcphttp.Request) (mcphttp.Cancel, error) {
	return f.Once(ctx, req)
}

func (frail) Once(_ context.Context, req mcphttp.Request) (mcphttp.Cancel, error) {
	if req.Message.Method == "vendor/panic" {
		panic("as asked")
	}
	req.Sink.Deliver(jsonrpc.Answer(req.Message.ID(), []byte("{}")), true)
	return nil, nil
}

// A panic is one failed call, in each era; the session goes on.
func TestPanicIsOneFailedCall(t *testing.T) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	f := mcphttp.New(session.NewTable(10), log)
	srv := httptest.NewServer(httpd.Streams(log)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.ServeMCP(w, r, "/mcp", frail{})
	})))
	defer srv.Close()
	head := http.Header{}
	post := func(method, params string) string {
		req, _ := http.NewRequestWithContext(t.Context(), "POST", srv.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`))
		req.Header = head.Clone()
		req.Header.Set("Content-Type", "application/json")
		if head.Get("Mcp-Protocol-Version") != "" {
			req.Header.Set("Mcp-Method", method)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
			head.Set("Mcp-Session-Id", id)
		}
		body, _ := io.ReadAll(resp.Body)
		return string(body)
	}
	check := func(params string) {
		t.Helper()
		if got := post("vendor/panic", params); !strings.Contains(got, "internal error: as asked") || !strings.Contains(got, `"id":1`) {
			t.Errorf("the panic came back as %s", got)
		}
		if got := post("vendor/fine", params); !strings.Contains(got, `"result":{}`) {
			t.Errorf("the next call: %s", got)
		}
	}
	post("initialize", `{}`)
	check(`{}`)
	head = http.Header{"Mcp-Protocol-Version": {"2026-07-28"}}
	check(`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}`)
}

// What a session keeps for its life is small, whatever else may be large.
func TestGreetingIsBounded(t *testing.T) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	f := mcphttp.New(session.NewTable(10), log)
	srv := httptest.NewServer(httpd.Streams(log)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.ServeMCP(w, r, "/mcp", frail{})
	})))
	defer srv.Close()
	session := ""
	for _, c := range []struct {
		method, id string
		size, want int
	}{
		{"initialize", `"id":1,`, 64 << 10, 400}, {"initialize", `"id":1,`, 60 << 10, 200}, {"notifications/initialized", "", 64 << 10, 400},
		{"notifications/initialized", "", 60 << 10, 202}, {"tools/call", `"id":2,`, 1 << 20, 200},
	} {
		req, _ := http.NewRequestWithContext(t.Context(), "POST", srv.URL, strings.NewReader(
			`{"jsonrpc":"2.0",`+c.id+`"method":"`+c.method+`","params":{"a":"`+strings.Repeat("x", c.size)+`"}}`))
		req.Header = http.Header{"Content-Type": {"application/json"}, "Mcp-Session-Id": {session}}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s of %d bytes: %d, want %d", c.method, c.size, resp.StatusCode, c.want)
		}
		if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
			session = id
		}
	}
}

// talker hands out what pushes to its sessions.
type talker struct {
	frail
	push chan mcphttp.Push
}

func (t talker) Open(p mcphttp.Push) mcphttp.Session {
	t.push <- p
	return t.frail
}

// A client that does not read loses its stream once 20 MiB wait, not before,
// and nothing of what comes after it has opened another.
func TestOverflowEndsOneStream(t *testing.T) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	f, target := mcphttp.New(session.NewTable(10), log), talker{push: make(chan mcphttp.Push, 1)}
	srv := httptest.NewServer(httpd.Streams(log)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.ServeMCP(w, r, "/mcp", target)
	})))
	defer srv.Close()
	head := http.Header{"Content-Type": {"application/json"}}
	do := func(method, body string) *http.Response {
		t.Helper()
		req, _ := http.NewRequestWithContext(t.Context(), method, srv.URL, strings.NewReader(body))
		req.Header = head.Clone()
		resp, err := http.DefaultClient.Do(req)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(err, resp)
		}
		return resp
	}
	resp := do("POST", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
	resp.Body.Close()
	head.Set("Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id"))
	push := <-target.push
	message := func(text string) *jsonrpc.Message {
		m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","method":"notifications/x","params":{"text":"` + text + `"}}`))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	big := message(strings.Repeat("x", 1<<20)) // once: the slow stream is cut off after 30 s as well
	slow := do("GET", "")
	defer slow.Body.Close()
	push(message("first"), nil)
	if _, err := io.ReadFull(slow.Body, make([]byte, len("event: message\n"))); err != nil { // now it is served
		t.Fatal(err)
	}
	for range 64 { // MiB: more than the kernel's buffers and the queue together
		push(big, nil)
	}
	got, err := io.Copy(io.Discard, slow.Body)
	if err != nil || got > 60<<20 {
		t.Errorf("the slow stream brought %d bytes: %v", got, err)
	}
	again := do("GET", "")
	defer again.Body.Close()
	push(message("after all"), nil)
	line := bufio.NewReader(again.Body)
	for {
		text, err := line.ReadString('\n')
		if err != nil {
			t.Fatalf("the next stream ends: %v", err)
		}
		if strings.HasPrefix(text, "data: ") {
			if !strings.Contains(text, "after all") {
				t.Errorf("the next stream begins with %.100s", text)
			}
			return
		}
	}
}

package serve_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// open initialises over streamable HTTP and returns the headers for what follows.
func open(t *testing.T, s *server, h http.Header) http.Header {
	t.Helper()
	resp, body := send(t, "POST", s.URL+"/mcp", jsonHeader(h), initialize)
	if resp.StatusCode != 200 {
		t.Fatalf("initialize: %d %s", resp.StatusCode, body)
	}
	return jsonHeader(h, "Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id"))
}

// ids that a decoder changes: beyond 2^53, with a fraction, in another
// spelling, with escapes.
var ids = []string{`9007199254740993`, `1.5`, `1.50e3`, `-0`, `12345678901234567890123`, `""`, `"\u0061\n"`, `"1"`, `0`}

// An id comes back byte for byte, in an answer as in an error, and so does a
// progress token.
func TestIDsComeBackByteForByte(t *testing.T) {
	s := start(t, nil)
	h := open(t, s, as("", ""))
	st := openSSE(t, s, "/sse", as("", ""))
	send(t, "POST", s.Root+st.endpoint, jsonHeader(as("", "")), initialize)
	st.message(t)
	for _, id := range ids {
		for _, method := range []string{"tools/call", "no/such"} {
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{"name":"read_file","arguments":{"text":"x"},"_meta":{"progressToken":%s}}}`, id, method, id)
			want := `"id":` + id + `,`
			_, got := send(t, "POST", s.URL+"/mcp", h, body)
			if !strings.Contains(got, want) || method == "tools/call" && !strings.Contains(got, `"progressToken":`+id) {
				t.Errorf("%s over streamable HTTP: %s", id, got)
			}
			send(t, "POST", s.Root+st.endpoint, jsonHeader(as("", "")), body)
			if method == "tools/call" {
				if got := st.message(t); !strings.Contains(got, `"progressToken":`+id) {
					t.Errorf("progress of %s over HTTP+SSE: %s", id, got)
				}
			}
			if got := st.message(t); !strings.Contains(got, want) {
				t.Errorf("%s over HTTP+SSE: %s", id, got)
			}
			meta := strings.Replace(body, `"progressToken"`, `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken"`, 1)
			stateless := jsonHeader(as("", ""), "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", "read_file")
			if _, got := send(t, "POST", s.URL+"/mcp", stateless, meta); !strings.Contains(got, want) {
				t.Errorf("%s stateless: %s", id, got)
			}
		}
	}
}

// Two calls under way with one id are both answered.
func TestEqualIDsAreBothAnswered(t *testing.T) {
	s := start(t, nil)
	st := openSSE(t, s, "/sse", as("", ""))
	post := func(body string) {
		if resp, got := send(t, "POST", s.Root+st.endpoint, jsonHeader(as("", "")), body); resp.StatusCode != 202 {
			t.Fatalf("%d %s", resp.StatusCode, got)
		}
	}
	post(initialize)
	st.message(t)
	post(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"run_command","arguments":{}}}`)
	receive(t, "the first call runs", s.started)
	post(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"read_file","arguments":{"text":"second"}}}`)
	if got := st.message(t); !strings.Contains(got, `"id":7`) || !strings.Contains(got, "second") {
		t.Errorf("the second call: %s", got)
	}
	go s.Close()
	if got := st.message(t); !strings.Contains(got, `"id":7`) || !strings.Contains(got, "shutting down") {
		t.Errorf("the first call: %s", got)
	}
}

// A newer stream of a session takes over: the older one may be a ghost.
func TestNewerStreamTakesOver(t *testing.T) {
	s := start(t, nil)
	h := open(t, s, as("", ""))
	first := openStream(t, s, "/mcp", h)
	second := openStream(t, s, "/mcp", h)
	if first.resp.StatusCode != 200 || second.resp.StatusCode != 200 {
		t.Fatalf("got %d and %d", first.resp.StatusCode, second.resp.StatusCode)
	}
	if line, ok := <-first.lines; ok {
		t.Errorf("the older stream goes on with %q", line)
	}
	select {
	case line, ok := <-second.lines:
		t.Errorf("the newer stream: %q %v", line, ok)
	default:
	}
}

// Whatever a client accepts, it is served where the answer fits.
func TestAnyAcceptThatFits(t *testing.T) {
	s := start(t, nil)
	h := open(t, s, as("", ""))
	call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read_file","arguments":{"text":"x"},"_meta":{"progressToken":1}}}`
	for accept, kind := range map[string]string{
		"": "text/event-stream", "*/*": "text/event-stream", "application/json": "application/json", "application/*": "application/json",
		"text/event-stream": "text/event-stream", "text/*;q=0.5": "text/event-stream", "application/json, text/event-stream;q=0": "application/json",
	} {
		h := h.Clone()
		if h.Set("Accept", accept); accept == "" {
			h["Accept"] = nil // net/http sends none
		}
		resp, body := send(t, "POST", s.URL+"/mcp", h, call)
		if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != kind || !strings.Contains(body, `"content"`) {
			t.Errorf("%q: %d %s %s", accept, resp.StatusCode, resp.Header.Get("Content-Type"), body)
		}
		if streams := strings.Contains(body, "notifications/progress"); streams != (kind == "text/event-stream") {
			t.Errorf("%q: progress %v", accept, streams)
		}
	}
	if resp, body := send(t, "POST", s.URL+"/mcp", with(h, "Accept", "text/html, application/json;q=0.0"), call); resp.StatusCode != 406 || !strings.Contains(body, "application/json") {
		t.Errorf("only HTML: %d %s", resp.StatusCode, body)
	}
}

// The handshake comes first, and once; one that was refused may come again.
func TestHandshakeComesFirst(t *testing.T) {
	s := start(t, nil)
	st := openSSE(t, s, "/sse", as("", ""))
	for _, c := range []struct{ body, want string }{
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "initialize comes first"},
		{`{"jsonrpc":"2.0","id":2,"method":"ping"}`, `"result":{}`},
		{`{"jsonrpc":"2.0","id":3,"method":"initialize"}`, `"error"`},
		{initialize, `"serverInfo"`},
		{initialize, "and once"},
		{`{"jsonrpc":"2.0","id":4,"method":"tools/list"}`, `"tools"`},
	} {
		send(t, "POST", s.Root+st.endpoint, jsonHeader(as("", "")), c.body)
		if got := st.message(t); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", c.body, got)
		}
	}
	send(t, "POST", s.Root+st.endpoint, jsonHeader(as("", "")),
		`{"jsonrpc":"2.0","id":5,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`)
	if got := st.message(t); !strings.Contains(got, `"id":5`) || !strings.Contains(got, `-32022`) || !strings.Contains(got, `"2025-11-25"`) {
		t.Errorf("2026-07-28 over HTTP+SSE: %s", got)
	}
}

// Mcp-Name in Base64 is read strictly: another reader could see another name.
func TestEncodedNameIsStrict(t *testing.T) {
	s := start(t, nil)
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":{"text":"x"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	for name, status := range map[string]int{
		"read_file": 200, "=?base64?cmVhZF9maWxl?=": 200, "=?base64?cmVhZF9maWxm?=": 400,
		"=?base64?d3JpdGVfZmlsZR==?=": 400, "=?base64?!?=": 400, "=?base64?cmVhZF9maWxl": 400,
	} {
		h := jsonHeader(as("", ""), "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", name)
		if resp, got := send(t, "POST", s.URL+"/mcp", h, body); resp.StatusCode != status {
			t.Errorf("%s: %d %s", name, resp.StatusCode, got)
		}
	}
}

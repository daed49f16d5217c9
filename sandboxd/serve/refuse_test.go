package serve_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/internal/httpd"
	"github.com/sallyport-dev/sallyport/internal/identity"
	"github.com/sallyport-dev/sallyport/sandboxd/serve"
)

func TestRefusals(t *testing.T) {
	s := start(t, nil)
	local := as("", "")
	post := jsonHeader(local)
	big := strings.Repeat(" ", httpd.MaxBody+1)
	for _, c := range []struct {
		name, method, path string
		h                  http.Header
		body               string
		status             int
		header, value      string // of the answer, if they matter
		says               string
	}{
		{name: "no token, SSE", method: "GET", path: "/sse", status: 401, header: "Www-Authenticate", value: "Bearer"},
		{name: "no token, session POST", method: "POST", path: "/sse?sessionid=x", status: 401, header: "Www-Authenticate", value: "Bearer"},
		{name: "no token, mcp", method: "POST", path: "/mcp", status: 401, header: "Www-Authenticate", value: "Bearer"},
		{name: "no token, unknown path", method: "GET", path: "/other", status: 401},
		{name: "no token, foreign host", method: "POST", path: "/mcp", h: http.Header{"Host": {"evil.example"}}, status: 401},
		{name: "no token, big body", method: "POST", path: "/mcp", body: big, status: 401},
		{name: "wrong token", method: "GET", path: "/sse", h: http.Header{"Authorization": {"Bearer " + strings.Repeat("x", 32)}}, status: 401},
		{name: "a token's beginning", method: "GET", path: "/sse", h: http.Header{"Authorization": {"Bearer " + token[:31]}}, status: 401},
		{name: "no scheme", method: "GET", path: "/sse", h: http.Header{"Authorization": {token}}, status: 401},
		{name: "two tokens", method: "GET", path: "/sse", h: http.Header{"Authorization": {"Bearer " + token, "Bearer " + token}}, status: 401},
		{name: "token in the query", method: "GET", path: "/sse?token=" + token + "&access_token=" + token, status: 401},
		{name: "foreign host", method: "POST", path: "/mcp", h: with(post, "Host", "evil.example"), body: initialize, status: 403, says: "MCP_ALLOWED_HOSTS"},
		{name: "foreign origin", method: "POST", path: "/mcp", h: with(post, "Origin", "https://evil.example"), body: initialize, status: 403, says: "MCP_ALLOWED_ORIGINS"},
		{name: "null origin", method: "GET", path: "/sse", h: with(local, "Origin", "null"), status: 403},
		{name: "unknown path", method: "GET", path: "/other", h: local, status: 404},
		{name: "deeper path", method: "GET", path: "/sse/x", h: local, status: 404},
		{name: "POST on SSE without a session", method: "POST", path: "/sse", h: post, body: initialize, status: 405, header: "Allow", value: "GET"},
		{name: "GET on mcp without a session", method: "GET", path: "/mcp", h: with(local, "Accept", "text/event-stream"), status: 405, header: "Allow", value: "POST"},
		{name: "GET on mcp, stateless", method: "GET", path: "/mcp", h: with(local, "Accept", "text/event-stream", "MCP-Protocol-Version", "2026-07-28"), status: 405, header: "Allow", value: "POST"},
		{name: "PUT on SSE", method: "PUT", path: "/sse", h: local, status: 405, header: "Allow", value: "GET, POST"},
		{name: "unknown SSE session", method: "POST", path: "/sse?sessionid=nosuch", h: post, body: initialize, status: 404, says: "start a new one"},
		{name: "unknown session", method: "POST", path: "/mcp", h: with(post, "Mcp-Session-Id", "nosuch"), body: initialize, status: 404},
		{name: "unknown session, GET", method: "GET", path: "/mcp", h: with(local, "Mcp-Session-Id", "nosuch", "Accept", "text/event-stream"), status: 404},
		{name: "unknown session, DELETE", method: "DELETE", path: "/mcp", h: with(local, "Mcp-Session-Id", "nosuch"), status: 404},
		{name: "big body", method: "POST", path: "/mcp", h: post, body: big, status: 413, says: "8 MiB"},
		{name: "not JSON", method: "POST", path: "/mcp", h: post, body: "{", status: 400},
		{name: "no body", method: "POST", path: "/mcp", h: post, status: 400},
		{name: "not JSON-RPC", method: "POST", path: "/mcp", h: post, body: `{"id":1}`, status: 400},
		{name: "form", method: "POST", path: "/mcp", h: with(post, "Content-Type", "application/x-www-form-urlencoded"), body: initialize, status: 415},
		{name: "neither JSON nor events", method: "POST", path: "/mcp", h: with(post, "Accept", "text/html"), body: initialize, status: 406, says: "text/event-stream"},
		{name: "unknown version", method: "POST", path: "/mcp", h: with(post, "MCP-Protocol-Version", "1999-01-01"), body: initialize, status: 400},
		{name: "unknown future version", method: "POST", path: "/mcp", h: with(post, "MCP-Protocol-Version", "2999-01-01", "Mcp-Method", "tools/list"), status: 400,
			body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2999-01-01","io.modelcontextprotocol/clientCapabilities":{}}}}`, says: "-32022"},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, body := send(t, c.method, s.URL+c.path, c.h, c.body)
			if resp.StatusCode != c.status || !strings.Contains(body, c.says) {
				t.Errorf("got %d %q, want %d and %q", resp.StatusCode, body, c.status, c.says)
			}
			if c.header != "" && resp.Header.Get(c.header) != c.value {
				t.Errorf("%s is %q, want %q", c.header, resp.Header.Get(c.header), c.value)
			}
			if strings.Contains(body, token) {
				t.Error("the answer repeats the token")
			}
		})
	}
	if log := s.log.String(); strings.Contains(log, token) || !strings.Contains(log, `"status":401`) {
		t.Errorf("the log holds a token or no refusal: %s", log)
	}
}

// What the refusals above vary is all that keeps a request out.
func TestAccepted(t *testing.T) {
	s := start(t, func(set *serve.Settings) {
		set.Hosts = []string{"127.0.0.1", "node.example"}
		set.Origins = []string{"https://app.example"}
	})
	post := jsonHeader(as("", ""))
	for name, h := range map[string]http.Header{
		"plain":        post,
		"host":         with(post, "Host", "node.example:8443"),
		"origin":       with(post, "Origin", "https://app.example"),
		"lower bearer": with(post, "Authorization", "bearer "+token),
	} {
		for _, path := range []string{"/mcp", "/mcp/"} {
			if resp, body := send(t, "POST", s.URL+path, h, initialize); resp.StatusCode != 200 || !strings.Contains(body, `"sallyport"`) || resp.Header.Get("Mcp-Session-Id") == "" {
				t.Errorf("%s on %s: %d %s", name, path, resp.StatusCode, body)
			}
		}
	}
}

func TestHealth(t *testing.T) {
	s := start(t, nil)
	if resp, body := send(t, "GET", s.Root+"/healthz", nil, ""); resp.StatusCode != 200 || body != "ok\n" {
		t.Errorf("got %d %q", resp.StatusCode, body)
	}
	if resp, _ := send(t, "POST", s.Root+"/healthz", nil, ""); resp.StatusCode != 405 || resp.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: got %d", resp.StatusCode)
	}
}

// Clients that find anything but 404 here believe in an OAuth login and drop
// the header that they were given.
func TestNoOAuthMetadata(t *testing.T) {
	for _, base := range []string{"/mcp-sandbox", ""} {
		s := start(t, func(set *serve.Settings) { set.BasePath = base })
		for _, path := range []string{
			"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp-sandbox/mcp",
			"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration", "/mcp-sandbox/mcp/.well-known/openid-configuration",
		} {
			if resp, _ := send(t, "GET", s.Root+path, nil, ""); resp.StatusCode != 404 {
				t.Errorf("base %q, %s: got %d", base, path, resp.StatusCode)
			}
		}
	}
}

func TestEdgeHeaders(t *testing.T) {
	open := start(t, nil)
	walled := start(t, func(set *serve.Settings) { set.RequireEdge = true })
	const p, tools, ask = identity.PrincipalHeader, identity.ToolsHeader, identity.AskHeader
	for _, c := range []struct {
		name          string
		h             http.Header
		open, require int // statuses without and with MCP_REQUIRE_EDGE
	}{
		{"none", http.Header{}, 200, 403},
		{"both", http.Header{p: {"token:poke"}, tools: {"*"}}, 200, 200},
		{"all", http.Header{p: {"oauth:a@b.c|d:e-f_g"}, tools: {"read_file,server/x"}, ask: {"read_file"}}, 200, 200},
		{"no grant at all", http.Header{p: {"token:poke"}, tools: {""}}, 200, 200},
		{"no principal", http.Header{tools: {"*"}}, 403, 403},
		{"no tools", http.Header{p: {"token:poke"}}, 403, 403},
		{"only ask", http.Header{ask: {"read_file"}}, 403, 403},
		{"only another of the edge's", http.Header{"X-Sallyport-Other": {"x"}}, 403, 403},
		{"two principals", http.Header{p: {"token:poke", "token:poke"}, tools: {"*"}}, 403, 403},
		{"two tools", http.Header{p: {"token:poke"}, tools: {"read_file", "*"}}, 403, 403},
		{"two asks", http.Header{p: {"token:poke"}, tools: {"*"}, ask: {"read_file", "write_file"}}, 403, 403},
		{"empty principal", http.Header{p: {""}, tools: {"*"}}, 403, 403},
		{"principal of no kind", http.Header{p: {"poke"}, tools: {"*"}}, 403, 403},
		{"local from outside", http.Header{p: {"local"}, tools: {"*"}}, 403, 403},
		{"principal with a comma", http.Header{p: {"token:a,b"}, tools: {"*"}}, 403, 403},
		{"long principal", http.Header{p: {"oauth:" + strings.Repeat("x", 129)}, tools: {"*"}}, 403, 403},
		{"empty grant", http.Header{p: {"token:poke"}, tools: {"read_file,,write_file"}}, 403, 403},
		{"grant with a blank", http.Header{p: {"token:poke"}, tools: {"read file"}}, 403, 403},
		{"empty ask", http.Header{p: {"token:poke"}, tools: {"*"}, ask: {""}}, 403, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := jsonHeader(as("", ""))
			for name, values := range c.h {
				h[name] = values
			}
			if resp, body := send(t, "POST", open.URL+"/mcp", h, initialize); resp.StatusCode != c.open {
				t.Errorf("got %d %s, want %d", resp.StatusCode, body, c.open)
			}
			if resp, body := send(t, "POST", walled.URL+"/mcp", h, initialize); resp.StatusCode != c.require {
				t.Errorf("with MCP_REQUIRE_EDGE: got %d %s, want %d", resp.StatusCode, body, c.require)
			}
		})
	}
}

// Calls that wait for something hold their messages, so their size together is
// bounded, over HTTP+SSE too, where the edge cannot count them.
func TestLargeCallsUnderWay(t *testing.T) {
	eachTransport(t, func(t *testing.T, transport string) {
		s := start(t, nil)
		s.HoldAtMost(1 << 20)
		session, cut := connect(t, s, transport, as("token:poke", "*"))
		large := func(session *mcp.ClientSession, tool string) (*mcp.CallToolResult, error) {
			return session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: map[string]any{}, Meta: mcp.Meta{"pad": strings.Repeat("x", 600<<10)}})
		}
		go large(session, "run_command")
		receive(t, "the first call runs", s.started)
		if r, err := large(session, "run_command"); err != nil || !r.IsError || !strings.Contains(text(r), "too large together") {
			t.Errorf("a second large call: %v %v", r, err)
		}
		if r, err := call(t, session, "read_file", map[string]any{"text": "small"}); err != nil || r.IsError {
			t.Errorf("a small call: %v %v", r, err)
		}
		cut()
		receive(t, "the first call ends", s.ended)
		again, _ := connect(t, s, transport, as("token:poke", "*"))
		eventually(t, "a large call runs afterwards", func() bool {
			r, err := large(again, "read_file")
			return err == nil && !r.IsError
		})
	})
}

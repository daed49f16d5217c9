package plugin

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestPaths(t *testing.T) {
	logged(t)
	s := &seen{}
	h := start(t, config(), s)
	for path, status := range map[string]int{
		"/mcp": 200, "/mcp/": 200, "/mcp/sse": 200, "/mcp/a%20b": 200, "/mcp/a.b": 200, "/mcp/..a": 200, "/mcp/a..": 200,
		"/": 404, "/mcpx": 404, "/mcp..": 404, "/MCP/sse": 404, "/admin": 404, "/mcp%2fsse": 404, "/mcp%2F..%2Fadmin": 404,
		"/mcp/../admin": 404, "/mcp/./sse": 404, "/mcp/..": 404, "/mcp/.": 404, "/mcp/%2e%2e/admin": 404, "/mcp/..%2fadmin": 404,
		"/mcp/..;x/admin": 404, "/mcp/;x": 404, "/mcp//sse": 404, "//mcp/sse": 404, "/mcp/%5cadmin": 404, "/mcp/..%5cadmin": 404,
		"/mcp/%C3%A9": 200, "/mcp/%c0%ae%c0%ae/admin": 404, "/mcp/%c0%afadmin": 404, "/mcp/%ff": 404,
		"/mcp/%00": 404, "/mcp/%252e%252e/admin": 404, "/mcp/a%0ab": 404, "/%6dcp/sse": 404, "/mcp/%25": 404, "/mcp/a%2eb": 404,
		"/mcp/.well-known/openid-configuration": 404, "/.well-known/oauth-protected-resource": 404,
		"/.well-known/oauth-protected-resource/mcp/mcp": 404, "/.well-known/oauth-authorization-server": 404,
	} {
		s.calls = 0
		rec := do(h, post(path, readFile))
		if rec.Code != status || (s.calls == 1) != (status == 200) {
			t.Errorf("%s: status %d, want %d; the backend was called %d times", path, rec.Code, status, s.calls)
		}
		r := post(path, readFile)
		r.Header.Del("Authorization")
		if rec := do(h, r); status == 404 && rec.Code != 404 {
			t.Errorf("%s: status %d without a token: a path says nothing to strangers, but 404 is for all", path, rec.Code)
		}
	}
	for b := 0; b < 0x80; b++ {
		if b == ' ' {
			b = 0x7f
		}
		if rec := do(h, post(fmt.Sprintf("/mcp/a%%%02xb", b), readFile)); rec.Code != 404 {
			t.Errorf("the control character %#x: status %d", b, rec.Code)
		}
	}
	r := post("/mcp/sse", readFile)
	r.URL.Opaque = "x"
	if rec := do(h, r); rec.Code != 404 {
		t.Errorf("an opaque URL: status %d", rec.Code)
	}
}

func TestMapsPath(t *testing.T) {
	logged(t)
	rows := []struct{ prefix, backend, path, want, forwarded string }{
		{"/mcp", "", "/mcp/sse?a=%2F&b", "/mcp/sse?a=%2F&b", ""},
		{"/mcp", "/mcp", "/mcp/sse", "/mcp/sse", ""},
		{"/mcp", "/", "/mcp", "/", "/mcp"},
		{"/mcp", "/", "/mcp/sse?", "/sse?", "/mcp"},
		{"/foo/bar", "/", "/foo/bar/a%20b/c", "/a%20b/c", "/foo/bar"},
		{"/foo/bar", "/bar", "/foo/bar/sse", "/bar/sse", "/foo"},
		{"/foo", "/x/y", "/foo/sse", "/x/y/sse", ""},
		{"/", "/x", "/sse", "/x/sse", ""},
		{"/", "", "/sse", "/sse", ""},
	}
	for i := range rows {
		row := rows[i]
		s := &seen{}
		c := config()
		c.PathPrefix = row.prefix
		c.BackendPath = row.backend
		r := post(row.path, readFile)
		r.Header.Set("X-Forwarded-Prefix", "/evil")
		if rec := do(start(t, c, s), r); rec.Code != 200 {
			t.Errorf("%s: status %d", row.path, rec.Code)
			continue
		}
		got := s.request
		if got.RequestURI != row.want || got.URL.RequestURI() != row.want || got.Header.Get("X-Forwarded-Prefix") != row.forwarded {
			t.Errorf("%s with %s to %s: %s, %s, prefix %q", row.path, row.prefix, row.backend, got.RequestURI, got.URL.RequestURI(), got.Header.Get("X-Forwarded-Prefix"))
		}
	}
}

func TestHeaders(t *testing.T) {
	logged(t)
	s := &seen{}
	c := config()
	c.Tokens[0].Tools = []string{"ask:run_command", "read_file", "method:prompts/list"}
	r := post("/mcp/mcp", readFile)
	spoofed := []string{"X-Sallyport-Principal", "X-Sallyport-Tools", "X-Sallyport-Ask", "X-Sallyport-Anything",
		"X_sallyport_tools", "X.sallyport.tools", "X-Sallyport_tools", "Tailscale-User-Login", "Tailscale_user_login",
		"Forwarded", "X-Forwarded-Prefix", "X_forwarded_prefix", "X-Original-Url", "X-Rewrite-Url", "X-Http-Method-Override",
		"Proxy-Authorization", "Connection", "Te", "Trailer", "X_authorization", "Authorization_"}
	for i := range spoofed {
		r.Header[spoofed[i]] = []string{"spoofed"}
	}
	r.Header["Mcp-Param-User_id"] = []string{"7"}
	r.Header["X-Other"] = []string{"kept"}
	r.Trailer = http.Header{"X-Sallyport-Tools": nil}
	if rec := do(start(t, c, s), r); rec.Code != 200 {
		t.Fatalf("status %d", rec.Code)
	}
	for key, values := range s.request.Header {
		if strings.Contains(strings.Join(values, ","), "spoofed") || strings.Contains(strings.Join(values, ","), clientToken) {
			t.Errorf("the backend sees %s: %q", key, values)
		}
	}
	h := s.request.Header
	if h.Get("X-Sallyport-Tools") != "run_command,read_file" || h.Get("X-Sallyport-Ask") != "run_command" {
		t.Errorf("tools %q, ask %q", h.Get("X-Sallyport-Tools"), h.Get("X-Sallyport-Ask"))
	}
	if h.Get("X-Other") != "kept" || len(h["Mcp-Param-User_id"]) != 1 {
		t.Error("headers of no concern were dropped")
	}
	if len(s.request.Trailer) != 0 {
		t.Error("trailers pass")
	}
}

// A foreign backend learns nothing of ours.
func TestForeignBackendHeaders(t *testing.T) {
	logged(t)
	s := &seen{}
	c := config()
	c.Backend = "other"
	c.BackendAuth = "none"
	c.BackendToken = ""
	if rec := do(start(t, c, s), post("/mcp/mcp", readFile)); rec.Code != 200 {
		t.Fatalf("status %d", rec.Code)
	}
	for key := range s.request.Header {
		if key == "Authorization" || strings.HasPrefix(key, "X-Sallyport-") {
			t.Errorf("the backend sees %s", key)
		}
	}
}

func TestGrantHeaders(t *testing.T) {
	logged(t)
	rows := []struct {
		backend    string
		grants     []string
		tools, ask string
	}{
		{"sandbox", []string{"read_file", " run_command "}, "read_file,run_command", ""},
		{"sandbox", []string{"*", "ask:run_command"}, "*", "run_command"},
		{"sandbox", []string{"read_file", "ask:read_file"}, "read_file", "read_file"},
		{"sandbox", []string{"ask:*"}, "*", "*"},
		{"sandbox", []string{"method:ping"}, "", ""},
		{"hub", []string{"files/*", "ask:git/push"}, "files/*,git/push", "git/push"},
	}
	for i := range rows {
		g := parseGrants(&mistakes{}, "", rows[i].backend, rows[i].grants)
		if strings.Join(g.toolsHeader, ",") != rows[i].tools || strings.Join(g.askHeader, ",") != rows[i].ask || (rows[i].ask == "") != (g.askHeader == nil) {
			t.Errorf("%q: tools %q, ask %q", rows[i].grants, g.toolsHeader, g.askHeader)
		}
	}
}

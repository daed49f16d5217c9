package plugin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// ask sends a token of p with these audiences to a path, and returns the status.
func (p *idp) ask(t *testing.T, h http.Handler, path string, aud interface{}) int {
	t.Helper()
	r := post(path, readFile)
	r.Header.Set("Authorization", "Bearer "+p.sign(t, head("ES256", "e"),
		p.claimsFor(map[string]interface{}{"aud": aud})))
	return do(h, r).Code
}

// The metadata names the URL that was asked for, whatever Host says, and is there
// for pages of every origin.
func TestMetadata(t *testing.T) {
	logged(t)
	p := newIDP(t)
	c := p.config()
	c.OAuth.Scopes = []string{"mcp"}
	s := &seen{}
	h := start(t, c, s)
	const at = "/.well-known/oauth-protected-resource"
	for path, want := range map[string]string{
		at: "https://n.example/mcp/mcp", at + "/mcp/mcp": "https://n.example/mcp/mcp",
		at + "/mcp":                 "https://n.example/mcp",
		at + "/mcp/sse":             "https://n.example/mcp/sse",
		at + "/mcp/servers/git/mcp": "https://n.example/mcp/servers/git/mcp",
		at + "/mcp/mcp/":            "https://n.example/mcp/mcp/",
		at + "/other":               "", at + "/mcpx": "", at + "/mcp/a//b": "", at + "/mcp/%2e%2e/x": "", at + "/mcp/a;b": "",
		at + "/": "",
		"/.well-known/oauth-authorization-server": "", "/.well-known/openid-configuration": "",
		"/mcp/.well-known/oauth-protected-resource": "", "/mcp/x/.well-known/openid-configuration": "",
	} {
		r := httptest.NewRequest("GET", path, nil)
		r.Host = "evil.example"
		r.Header.Set("Origin", "https://page.example")
		rec := do(h, r)
		var doc struct{ Resource string }
		_ = json.Unmarshal(rec.Body.Bytes(), &doc)
		if (rec.Code == 200) != (want != "") || doc.Resource != want || s.calls != 0 {
			t.Errorf("%s: status %d, resource %q, want %q", path, rec.Code, doc.Resource, want)
		}
		if rec.Header().Get("Access-Control-Allow-Origin") != "*" || strings.Contains(rec.Body.String(), "evil") {
			t.Errorf("%s: %v %s", path, rec.Header(), rec.Body.String())
		}
		r = httptest.NewRequest("OPTIONS", path, nil)
		r.Header.Set("Access-Control-Request-Headers", "mcp-protocol-version")
		rec = do(h, r)
		if want != "" && (rec.Code != 204 || rec.Header().Get("Access-Control-Allow-Headers") != "*" ||
			!strings.Contains(rec.Header().Get("Access-Control-Allow-Methods"), "GET")) {
			t.Errorf("preflight of %s: status %d %v", path, rec.Code, rec.Header())
		}
	}
	if rec := do(h, httptest.NewRequest("POST", at, nil)); rec.Code != 405 {
		t.Errorf("POST: status %d", rec.Code)
	}
	// A preflight of the endpoint itself is not the plugin's.
	if rec := do(h, httptest.NewRequest("OPTIONS", "/mcp/mcp", nil)); rec.Code != 405 ||
		rec.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a preflight of the endpoint: status %d %v", rec.Code, rec.Header())
	}
}

func TestChallengeNamesThePath(t *testing.T) {
	logged(t)
	p := newIDP(t)
	c := p.config()
	c.OAuth.Scopes = []string{"mcp"}
	h := start(t, c, &seen{})
	for _, path := range []string{"/mcp/mcp", "/mcp/sse", "/mcp/servers/git/mcp"} {
		r := post(path, readFile)
		r.Header.Del("Authorization")
		want := `Bearer resource_metadata="https://n.example/.well-known/oauth-protected-resource` + path + `", scope="mcp"`
		if got := do(h, r).Header().Get("WWW-Authenticate"); got != want {
			t.Errorf("the challenge is %s, want %s", got, want)
		}
		// In token mode it is bare.
		if got := do(start(t, config(), &seen{}), r).Header().Get("WWW-Authenticate"); got != "Bearer" {
			t.Errorf("in token mode the challenge is %s", got)
		}
	}
}

// A token opens the path that it is for, and the base's all that is below it. The
// second time it comes from memory.
func TestAudiences(t *testing.T) {
	logged(t)
	p := newIDP(t)
	const n = "https://n.example"
	rows := []struct {
		base, path string
		aud        interface{}
		ok         bool
	}{
		{n + "/mcp", "/mcp/mcp", n + "/mcp/mcp", true},
		{n + "/mcp", "/mcp/mcp", n + "/mcp/mcp/", true},
		{n + "/mcp", "/mcp/mcp/", n + "/mcp/mcp", true},
		{n + "/mcp", "/mcp/mcp", n + "/mcp", true},
		{n + "/mcp", "/mcp/mcp", n + "/mcp/", true},
		{n + "/mcp/", "/mcp/mcp", n + "/mcp", true},
		{n + "/mcp", "/mcp/mcp", []string{"x", n + "/mcp/mcp"}, true},
		{n + "/mcp", "/mcp/servers/git/mcp", n + "/mcp/servers/git/mcp", true},
		{n + "/mcp", "/mcp/servers/git/mcp", n + "/mcp", true},
		{n + "/mcp", "/mcp/servers/git/mcp", n + "/mcp/servers/files/mcp", false},
		{n + "/mcp", "/mcp/servers/git/mcp", n + "/mcp/servers/git", false},
		{n + "/mcp", "/mcp/sse", n + "/mcp/mcp", false},
		{n + "/mcp", "/mcp/mcp", n, false},
		{n + "/mcp", "/mcp/mcp", "https://other.example/mcp/mcp", false},
		{n + "/mcp", "/mcp/mcp", "http://n.example/mcp/mcp", false},
		{n + "/mcp", "/mcp/mcp", "/mcp/mcp", false},
		{n + "/mcp", "/mcp/mcp", []string{}, false},
		{n + "/mcp", "/mcp/mcp", "HTTPS://N.example:443/mcp/mcp", true},
		{"https://N.Example:443/mcp", "/mcp/mcp", n + "/mcp/mcp", true},
		{n + "/mcp", "/mcp/mcp", n + ":8443/mcp/mcp", false},
		{n + "/mcp", "/mcp/mcp", n + "/MCP/mcp", false},
		{n + "/mcp", "/mcp/mcp", n + "/mcp/mcp?x=1", false},
		{n + "/mcp", "/mcp/mcp", n + "/mcp/mcp#x", false},
		{n + "/mcp", "/mcp/mcp", "https://x@n.example/mcp/mcp", false},
		{n + "/mcp", "/mcp/mcp", n + "/mcp/mcp//", false},
		{n + "/mcp", "/mcp/mcp", n + "/mcp/x/../mcp", false},
		// A base that is one endpoint stands for that server's, and for no other server's.
		{n + "/mcp/mcp", "/mcp/mcp", n + "/mcp/mcp", true},
		{n + "/mcp/mcp", "/mcp/sse", n + "/mcp/mcp", true},
		{n + "/mcp/servers/git/mcp", "/mcp/servers/git/sse", n + "/mcp/servers/git/mcp", true},
		{n + "/mcp/servers/git/mcp", "/mcp/servers/files/mcp", n + "/mcp/servers/git/mcp", false},
		{n + "/mcp/servers/git/mcp", "/mcp/servers/files/mcp", n + "/mcp/servers/files/mcp", true},
		// Legacy servers take the messages of /sse elsewhere.
		{n + "/mcp", "/mcp/messages/", n + "/mcp/sse", true},
		{n + "/mcp", "/mcp/message", n + "/mcp/sse", true},
		{n + "/mcp", "/mcp/x/message", n + "/mcp/sse", false},
		{n + "/mcp", "/mcp/other", n + "/mcp/sse", false},
	}
	for i := range rows {
		row := rows[i]
		c := p.config()
		c.OAuth.Audience = row.base
		h := start(t, c, &seen{})
		for again := 0; again < 2; again++ {
			if code := p.ask(t, h, row.path, row.aud); (code == 200) != row.ok || (code != 200 && code != 401) {
				t.Errorf("base %s: %v at %s: status %d", row.base, row.aud, row.path, code)
			}
		}
	}
}

// What is remembered of a token is not believed at another path.
func TestKnownTokenAtAnotherPath(t *testing.T) {
	logged(t)
	p := newIDP(t)
	c := p.config()
	c.OAuth.Audience = "https://n.example/mcp"
	h := start(t, c, &seen{})
	text := p.sign(t, head("ES256", "e"), p.claimsFor(map[string]interface{}{"aud": "https://n.example/mcp/a"}))
	for path, status := range map[string]int{"/mcp/a": 200, "/mcp/b": 401} {
		for i := 0; i < 2; i++ {
			r := post(path, readFile)
			r.Header.Set("Authorization", "Bearer "+text)
			if rec := do(h, r); rec.Code != status {
				t.Errorf("%s: status %d, want %d", path, rec.Code, status)
			}
		}
	}
}

// Issuers have names of their own for a resource.
func TestAudienceOfTheIssuer(t *testing.T) {
	logged(t)
	p := newIDP(t)
	const guid = "7c1f9a30-0000-4000-8000-3f0000000001"
	for _, own := range []string{guid, "api://" + guid, "https://api.example/"} {
		for _, public := range []string{"https://n.example", "https://n.example/mcp", "https://n.example/mcp/mcp"} {
			c := p.config()
			c.OAuth.Audience = own
			c.OAuth.Resource = public
			h := start(t, c, &seen{})
			for aud, status := range map[string]int{own: 200, "https://n.example/mcp/mcp": 200, own + "x": 401,
				"https://n.example/other": 401, "https://n.example": 401} {
				if code := p.ask(t, h, "/mcp/mcp", aud); code != status {
					t.Errorf("audience %s, resource %s: %s gets %d, want %d", own, public, aud, code, status)
				}
			}
			rec := do(h, httptest.NewRequest("GET", "/.well-known/oauth-protected-resource/mcp/sse", nil))
			if !strings.Contains(rec.Body.String(), `"resource":"https://n.example/mcp/sse"`) {
				t.Errorf("metadata: %s", rec.Body.String())
			}
		}
	}
}

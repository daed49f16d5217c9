package plugin

import (
	"net/http"
	"strings"
	"testing"
)

// with asks as a token with these changes of its claims.
func (p *idp) with(t *testing.T, h http.Handler, tool string, changes map[string]interface{}) (int, string,
	http.Header) {
	t.Helper()
	r := bearing(p.sign(t, head("ES256", "e"), p.claimsFor(changes)))
	payload(named(tool))(r)
	rec := do(h, r)
	return rec.Code, rec.Body.String(), rec.Header()
}

// Whoever can make an account at the issuer does not come in by that.
func TestWhoMayComeIn(t *testing.T) {
	logged(t)
	p := newIDP(t)
	c := p.config()
	c.OAuth.Tools = []string{"read_file", "write_file", "run_command"}
	c.OAuth.Principals = map[string][]string{"alice": {"read_file"}, "bob@n.example": {"*"}}
	s := &seen{}
	h := start(t, c, s)
	for _, row := range []struct {
		sub, tool string
		status    int
		refused   bool
		tools     string
	}{
		{"alice", "read_file", 200, false, "read_file"},
		{"alice", "write_file", 200, true, ""},
		{"bob@n.example", "write_file", 200, false, "read_file,write_file,run_command"},
		{"bob@n.example", "other", 200, true, ""},
		{"mallory", "read_file", 403, false, ""},
		{"Alice", "read_file", 403, false, ""},
	} {
		code, body, header := p.with(t, h, row.tool, map[string]interface{}{"sub": row.sub})
		if code != row.status || strings.Contains(body, "is not granted") != row.refused {
			t.Errorf("%s, %s: status %d %s", row.sub, row.tool, code, body)
		}
		if row.tools != "" && s.request.Header.Get("X-Sallyport-Tools") != row.tools {
			t.Errorf("%s: tools %q", row.sub, s.request.Header.Get("X-Sallyport-Tools"))
		}
		if code == 403 && (header.Get("WWW-Authenticate") != "" || !strings.Contains(body,
			"oauth:"+row.sub+" is not listed in oauth.principals")) {
			t.Errorf("%s: %s %v", row.sub, body, header)
		}
	}
}

// An address that its owner has not shown to be his does not say who he is.
func TestUnverifiedAddress(t *testing.T) {
	logged(t)
	p := newIDP(t)
	c := p.config()
	c.OAuth.PrincipalClaim = "email"
	h := start(t, c, &seen{})
	for _, row := range []struct {
		verified interface{}
		status   int
	}{{true, 200}, {"true", 200}, {nil, 200}, {false, 403}, {"false", 403}, {0, 403}, {[]bool{true}, 403}} {
		code, body, _ := p.with(t, h, "read_file", map[string]interface{}{"email": "alice@n.example",
			"email_verified": row.verified})
		if code != row.status {
			t.Errorf("email_verified %v: status %d %s", row.verified, code, body)
		}
	}
	if code, _, _ := p.with(t, start(t, p.config(), &seen{}), "read_file", map[string]interface{}{"email": "x",
		"email_verified": false}); code != 200 {
		t.Errorf("where sub names the principal: status %d", code)
	}
}

// A claim narrows; it never adds.
func TestToolsClaim(t *testing.T) {
	logged(t)
	p := newIDP(t)
	for _, row := range []struct {
		ceiling    []string
		claim      interface{}
		tools, ask string // empty tools: 403
	}{
		{[]string{"read_file", "run_command"}, []string{"read_file"}, "read_file", ""},
		{[]string{"read_file"}, []string{"read_file", "run_command", "*"}, "read_file", ""},
		{[]string{"read_file"}, []string{"run_command"}, "", ""},
		{[]string{"*"}, []string{"read_file"}, "read_file", ""},
		{[]string{"*"}, []string{"*"}, "*", ""},
		{[]string{"*", "ask:run_command"}, []string{"*"}, "*", "run_command"},
		{[]string{"*", "ask:run_command"}, []string{"run_command", "read_file"}, "run_command,read_file",
			"run_command"},
		{[]string{"ask:*"}, []string{"read_file"}, "read_file", "read_file"},
		{[]string{"read_file", "run_command"}, []string{"ask:*"}, "read_file,run_command", "read_file,run_command"},
		{[]string{"read_file"}, []string{"ask:read_file", "read_file"}, "read_file", "read_file"},
		{[]string{"user%2Fupdate"}, []string{"user%2fupdate"}, "user%2fupdate", ""},
		{[]string{"read_file"}, []string{"read_file,run_command", "read file", "", "server/read_file", "ask:", "%zz"},
			"", ""},
		{[]string{"read_file"}, []string{}, "", ""},
		{[]string{"read_file"}, "read_file", "", ""},
		{[]string{"read_file"}, nil, "", ""},
		{[]string{"read_file"}, []interface{}{"read_file", 1}, "", ""},
		{[]string{"read_file"}, make([]string, 101), "", ""},
	} {
		c := p.config()
		c.OAuth.Tools = row.ceiling
		c.OAuth.Principals = nil
		c.OAuth.ToolsClaim = "grants"
		c.OAuth.Scopes = nil
		s := &seen{}
		h := start(t, c, s)
		r := bearing(p.sign(t, head("ES256", "e"), p.claimsFor(map[string]interface{}{"grants": row.claim,
			"sub": "anybody"})))
		payload(called("tools/list", "{}"))(r)
		rec := do(h, r)
		if (rec.Code == 200) != (row.tools != "") || (rec.Code != 200 && rec.Code != 403) ||
			strings.Contains(rec.Header().Get("WWW-Authenticate"), "insufficient_scope") {
			t.Errorf("%q cut to %q: status %d %s", row.claim, row.ceiling, rec.Code, rec.Body.String())
			continue
		}
		if rec.Code == 200 && (s.request.Header.Get("X-Sallyport-Tools") != row.tools ||
			strings.Join(s.request.Header["X-Sallyport-Ask"], ";") != row.ask) {
			t.Errorf("%q cut to %q: tools %q, ask %q", row.claim, row.ceiling, s.request.Header["X-Sallyport-Tools"],
				s.request.Header["X-Sallyport-Ask"])
		}
	}
}

// Where both are given, both narrow.
func TestPrincipalsAndToolsClaim(t *testing.T) {
	logged(t)
	p := newIDP(t)
	c := p.config()
	c.OAuth.Tools = []string{"read_file", "run_command"}
	c.OAuth.Principals = map[string][]string{"alice": {"read_file"}}
	c.OAuth.ToolsClaim = "grants"
	h := start(t, c, &seen{})
	both := []string{"read_file", "run_command"}
	if code, body, _ := p.with(t, h, "read_file", map[string]interface{}{"grants": both}); code != 200 {
		t.Errorf("status %d %s", code, body)
	}
	if _, body, _ := p.with(t, h, "run_command", map[string]interface{}{"grants": both}); !strings.Contains(body,
		"is not granted") {
		t.Errorf("more than the principal has: %s", body)
	}
	if code, _, _ := p.with(t, h, "read_file", map[string]interface{}{"grants": both, "sub": "mallory"}); code != 403 {
		t.Errorf("not listed: status %d", code)
	}
}

// Scopes come in the forms that issuers write.
func TestScopes(t *testing.T) {
	logged(t)
	p := newIDP(t)
	c := p.config()
	c.OAuth.PrincipalClaim = "email"
	c.OAuth.Scopes = []string{"mcp:read", "mcp:call"}
	c.OAuth.Principals["alice+mcp@n.example"] = []string{"read_file"}
	s := &seen{}
	h := start(t, c, s)
	for _, has := range []map[string]interface{}{
		{"scope": "mcp:call x mcp:read"}, {"scope": []string{"mcp:read", "mcp:call"}},
		{"scp": []string{"mcp:read", "mcp:call"}}, {"scp": "mcp:read mcp:call"},
		{"scope": "openid", "permissions": []string{"mcp:read", "mcp:call"}},
	} {
		has["email"] = "alice+mcp@n.example"
		if code, body, _ := p.with(t, h, "read_file", has); code != 200 ||
			s.request.Header.Get("X-Sallyport-Principal") != "oauth:alice+mcp@n.example" {
			t.Errorf("%v: status %d %s", has, code, body)
		}
	}
	few := map[string]interface{}{"email": "alice@n.example", "scope": "mcp:read"}
	code, _, header := p.with(t, h, "read_file", few)
	challenge := header.Get("WWW-Authenticate")
	if code != 403 || !strings.Contains(challenge, `error="insufficient_scope"`) || !strings.Contains(challenge,
		`scope="mcp:read mcp:call"`) {
		t.Errorf("too little scope: status %d %s", code, challenge)
	}
	// Where grants travel in the token, nobody is sent for more scopes.
	c.OAuth.ToolsClaim = "grants"
	few["grants"] = []string{"read_file"}
	code, body, header := p.with(t, start(t, c, s), "read_file", few)
	if code != 403 || header.Get("WWW-Authenticate") != "" {
		t.Errorf("too little scope with toolsClaim: status %d %s %v", code, body, header)
	}
}

// Entra is asked for api://ID/NAME and grants NAME.
func TestScopesOfTheIssuer(t *testing.T) {
	logged(t)
	p := newIDP(t)
	for _, own := range []string{"api://app", "app"} {
		for scope, status := range map[string]int{"api://app/mcp.use": 200, "api://app/.default": 200, "mcp.use": 200,
			"api://app/other": 403, "api://other/mcp.use": 403} {
			c := p.config()
			c.OAuth.Audience = own
			c.OAuth.Resource = "https://n.example/mcp/mcp"
			c.OAuth.Scopes = []string{scope}
			if code, body, _ := p.with(t, start(t, c, &seen{}), "read_file", map[string]interface{}{"aud": own,
				"scp": "mcp.use"}); code != status {
				t.Errorf("audience %s, scope %s: status %d %s", own, scope, code, body)
			}
		}
	}
}

// What an issuer signs for something else is no access token.
func TestOtherTokensOfTheIssuer(t *testing.T) {
	logged(t)
	p := newIDP(t)
	h := start(t, p.config(), &seen{})
	for typ, status := range map[string]int{"at+jwt": 200, "application/at+jwt": 200, "AT+JWT": 200, "JWT": 200,
		"jwt":      200,
		"dpop+jwt": 401, "logout+jwt": 401, "secevent+jwt": 401, "token-introspection+jwt": 401, "JOSE": 401, "": 401} {
		header := map[string]interface{}{"alg": "ES256", "kid": "e", "typ": typ}
		if rec := do(h, bearing(p.sign(t, header, p.claimsFor(nil)))); rec.Code != status {
			t.Errorf("typ %q: status %d, want %d", typ, rec.Code, status)
		}
	}
	for desc, changes := range map[string]map[string]interface{}{
		"bound by DPoP": {"cnf": map[string]string{"jkt": "x"}},
		"bound by TLS":  {"cnf": map[string]string{"x5t#S256": "x"}}, "empty cnf": {"cnf": map[string]string{}},
		"ID token with at_hash": {"at_hash": "x"}, "ID token with c_hash": {"c_hash": "x"},
		"Cognito's ID token": {"token_use": "id"}, "Keycloak's ID token": {"typ": "ID"},
		"Keycloak's refresh token": {"typ": "Refresh"},
	} {
		if code, body, _ := p.with(t, h, "read_file", changes); code != 401 {
			t.Errorf("%s: status %d %s", desc, code, body)
		}
	}
	header := map[string]interface{}{"alg": "ES256", "kid": "e", "typ": "JWT"}
	nonce := p.sign(t, header, p.claimsFor(map[string]interface{}{"nonce": "x"}))
	if rec := do(h, bearing(nonce)); rec.Code != 401 {
		t.Errorf("an ID token with a nonce: status %d", rec.Code)
	}
	bearer := p.sign(t, header, p.claimsFor(map[string]interface{}{"nonce": "x", "typ": "Bearer"}))
	if rec := do(h, bearing(bearer)); rec.Code != 200 {
		t.Errorf("Keycloak's access token: status %d %s", rec.Code, rec.Body.String())
	}
}

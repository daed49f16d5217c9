package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A code is good once, for its client, its verifier, its redirect URI and its resource.
// The twin of each row is the first: the same request with nothing changed.
func TestCodeAttacks(t *testing.T) {
	r := newRig(t, nil)
	owner, c, thief := r.owner(), r.app(), r.app()
	for _, row := range []struct {
		name, want string
		pairs      []string
	}{
		{"twin", "", nil},
		{"no verifier", "invalid_grant", []string{"code_verifier", ""}},
		{"another verifier", "invalid_grant", []string{"code_verifier", strings.Repeat("w", 43)}},
		{"the challenge as verifier", "invalid_grant", []string{"code_verifier", c.query().Get("code_challenge")}},
		{"another client", "invalid_grant", []string{"client_id", thief.id}},
		{"no client", "invalid_grant", []string{"client_id", ""}},
		{"another redirect URI", "invalid_grant", []string{"redirect_uri", callback + "/"}},
		{"another resource", "invalid_target", []string{"resource", r.origin + "/mcp-oauth/hub/hub/mcp"}},
		{"a resource that is not there", "invalid_target", []string{"resource", "https://evil.example/"}},
	} {
		code := c.approve(owner, c.query()).Get("code")
		a := c.exchange(code, row.pairs...)
		if a.text("error") != row.want || (a.status == 200) != (row.want == "") {
			t.Errorf("%s: %d %s", row.name, a.status, a.body)
		}
		if row.want != "" && row.pairs[0] != "client_id" { // who has the code and guesses wrong has used it up
			if a := c.exchange(code); a.status == 200 {
				t.Errorf("%s: the code still worked", row.name)
			}
		}
	}
}

// A code that comes again takes back what it gave, and nothing else.
func TestCodeReplay(t *testing.T) {
	r := newRig(t, nil)
	owner, c := r.owner(), r.app()
	other := c.connect(owner)
	code := c.approve(owner, c.query()).Get("code")
	first := c.exchange(code)
	if a := c.refresh(first.text("refresh_token")); a.status != 200 {
		t.Fatalf("twin: %s", a.body)
	}
	first = c.exchange(c.approve(owner, c.query()).Get("code"))
	if a := c.exchange(code); a.text("error") != "invalid_grant" {
		t.Errorf("a second time: %s", a.body)
	}
	if a := c.refresh(first.text("refresh_token")); a.status != 200 {
		t.Errorf("a grant of another code: %s", a.body)
	}
	if a := c.refresh(other.text("refresh_token")); a.status != 200 {
		t.Errorf("another grant: %s", a.body)
	}
	if r.revoked() == "" {
		t.Error("nothing is in the edge's list")
	}
}

// PKCE cannot be left out or weakened.
func TestDowngrade(t *testing.T) {
	r := newRig(t, nil)
	owner, c := r.owner(), r.app()
	c.approve(owner, c.query()) // the twin
	for _, pairs := range [][]string{
		{"code_challenge_method", "plain"}, {"code_challenge_method", ""}, {"code_challenge_method", "s256"},
		{"code_challenge", ""},
		{"code_challenge", "short"}, {"code_challenge", strings.Repeat("=", 43)}, {"response_type", "token"},
		{"response_type", "code id_token"},
		{"response_mode", "fragment"}, {"request", "eyJ"}, {"request_uri", "https://evil.example/r"},
	} {
		page := owner.do("GET", "/authorize?"+c.query(pairs...).Encode(), nil)
		if page.status != 400 || landing(page.body) != nil || strings.Contains(page.body, "request\" value") {
			t.Errorf("%v: %d %s", pairs, page.status, page.body)
		}
	}
	if page := owner.do("GET", "/authorize?"+c.query().Encode()+"&code_challenge=x", nil); page.status != 400 {
		t.Errorf("a parameter twice: %d", page.status)
	}
}

// No request leads a browser to a place that the client did not register, an error
// neither; and none leads anywhere by itself before the owner agreed.
func TestRedirects(t *testing.T) {
	r := newRig(t, nil)
	owner := r.owner()
	c := r.app("https://claude.example/cb", "http://localhost/callback", "http://127.0.0.1:7777/cb")
	for _, good := range []string{"https://claude.example/cb", "http://localhost:49152/callback", "http://localhost/callback", "http://127.0.0.1:1/cb"} {
		if at := c.approve(owner, c.query("redirect_uri", good)).Get("at"); at != good {
			t.Errorf("twin %s: landed at %s", good, at)
		}
	}
	for _, bad := range []string{
		"https://claude.example/cb2", "https://claude.example/cb/", "https://claude.example/cb?x=1", "https://claude.example/cb#x", "https://claude.example.evil.example/cb",
		"https://claude.example@evil.example/cb", "https://evil.example/cb", "https://claude.example:444/cb", "http://claude.example/cb",
		"https://claude.example/%63b", "https://claude.example\\@evil.example/cb", "https://CLAUDE.example/cb", "//evil.example/cb", "/cb", "javascript:alert(1)",
		"http://localhost.evil.example:80/callback", "http://localhost@evil.example/callback", "http://127.0.0.1:7777@evil.example/cb", "https://localhost/callback",
		"http://localhost:49152/callback/../x", "http://localhost:99999999999/callback", "http://[::1]:7777/cb", "http://127.0.0.2:7777/cb", "http://2130706433:7777/cb",
		"https://claude.example/cb https://evil.example", "",
	} {
		page := owner.do("GET", "/authorize?"+c.query("redirect_uri", bad, "response_type", "token").Encode(), nil)
		if page.status != 400 || page.header.Get("Location") != "" || landing(page.body) != nil ||
			strings.Contains(page.body, "Tell ") {
			t.Errorf("%q: %d leads on: %s", bad, page.status, page.body)
		}
	}
	// An error after validation is a link, never a redirect; a stranger gets not even that.
	q := "/authorize?" + c.query("response_type", "token").Encode()
	page := owner.do("GET", q, nil)
	if page.status != 400 || page.header.Get("Location") != "" || landing(page.body) != nil ||
		!strings.Contains(page.body, "error=unsupported_response_type") || !strings.Contains(page.body, "iss=") {
		t.Errorf("error: %d %s", page.status, page.body)
	}
	if page := r.browser().do("GET", q, nil); page.status != 200 || strings.Contains(page.body, "claude.example/cb?") ||
		strings.Contains(page.body, "error=") {
		t.Errorf("a stranger: %d %s", page.status, page.body)
	}
}

// Bad redirect URIs are dropped at registration; only if none is left it is refused.
func TestRegistration(t *testing.T) {
	r := newRig(t, nil)
	c := &app{browser: r.browser()}
	cursor := "cursor://anysphere.cursor-mcp/oauth/callback"
	a := c.register(map[string]any{
		"redirect_uris": []string{
			cursor, "https://www.cursor.com/agents/mcp/oauth/callback", "http://localhost:8787/callback", "cursor://evil/oauth/callback", "javascript:alert(1)",
			"http://192.168.1.1/cb", "https://a@b.example/", "myapp:cb", "data:text/html,x", "https://x.example/#f", "https://ü.example/", "http://evil.example/",
			"https://%D1%81laude.ai/cb", "https://claude.ai%E2%95%B1cb.evil.example/", "https://claude.ai%C2%AD.evil.example/", "https://xn--bcher-kva.example/%C3%BC",
			// With a parameter of our own answer in it, a client would read two: also escaped, in other letters, behind
			// a semicolon, as an array, on loopback. The twin has a parameter of the client's.
			"https://q.example/cb?app=1&statement=2", "https://q.example/cb?code=1", "https://q.example/cb?app=1&state=x", "https://q.example/cb?iss=https://evil.example",
			"https://q.example/cb?error=x", "https://q.example/cb?error_description=x", "https://q.example/cb?%63ode=1", "https://q.example/cb?CODE=1", "https://q.example/cb?a=1;code=2",
			"https://q.example/cb?code[]=1", "https://q.example/cb?code[%0A]=1", "https://q.example/cb?+code=1", "https://q.example/cb?code", "https://q.example/cb?a=%zz", "http://localhost:1/cb?code=1",
		},
		"token_endpoint_auth_method": "client_secret_basic",
		"grant_types":                []string{"authorization_code", "refresh_token"}, "client_name": "Cur\u202esor\n",
	})
	uris, _ := a.json["redirect_uris"].([]any)
	if a.status != 201 || len(uris) != 5 || uris[0] != cursor || a.text("token_endpoint_auth_method") != "none" ||
		strings.Contains(a.body, "null") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if got := fmt.Sprint(uris...); strings.Count(got, "q.example") != 1 || !strings.Contains(got, "app=1&statement=2") {
		t.Errorf("of the addresses with a query these were kept: %s", got)
	}
	if a.text("client_name") != "Cur sor" || a.text("client_secret") != "" {
		t.Errorf("name %q, %s", a.text("client_name"), a.body)
	}
	for _, bad := range []map[string]any{
		{"redirect_uris": []string{"javascript:x"}}, {}, {"redirect_uris": []string{"https://a.example/"}, "grant_types": []string{"client_credentials"}},
		{"redirect_uris": []string{"https://a.example/"}, "token_endpoint_auth_method": "private_key_jwt"},
		{"redirect_uris": []string{"https://a.example/"}, "token_endpoint_auth_method": "private_key_jwt", "jwks": map[string]any{"keys": []any{map[string]any{"kty": "oct", "k": "AAAA"}}}},
		{"redirect_uris": []string{"https://a.example/"}, "token_endpoint_auth_method": "private_key_jwt", "jwks_uri": "http://a.example/"},
	} {
		if a := c.register(bad); a.status != 400 || !strings.HasPrefix(a.text("error"), "invalid_") {
			t.Errorf("%v: %d %s", bad, a.status, a.body)
		}
	}
	if a := c.post("/register", "application/json", strings.Repeat("x", 9<<10)); a.status != 413 {
		t.Errorf("a large body: %d", a.status)
	}
}

// A flood of registrations is limited, costs no approved client its place, and leaves
// room for a burst.
func TestRegistrationFlood(t *testing.T) {
	r := newRig(t, nil)
	owner, c := r.owner(), r.app()
	tokens := c.connect(owner)
	accepted, limited := 0, 0
	for range 100 {
		switch a := c.register(map[string]any{"redirect_uris": []string{callback}}); a.status {
		case 201:
			accepted++
		case 429:
			limited++
			if a.header.Get("Retry-After") == "" || a.text("error") == "" {
				t.Fatalf("limited without a word: %s", a.body)
			}
		}
	}
	if accepted < 20 || limited == 0 {
		t.Errorf("%d accepted, %d limited", accepted, limited)
	}
	if a := c.refresh(tokens.text("refresh_token")); a.status != 200 {
		t.Errorf("an approved client: %s", a.body)
	}
}

// One address that goes on registering takes the room of nobody else's; without an
// address of its own (the twin) the same client is refused.
func TestRegistrationsOfOneAddress(t *testing.T) {
	r := newRig(t, nil)
	c := r.app()
	from := func(address string) int {
		return c.post("/register", "application/json", `{"redirect_uris": ["`+callback+`"]}`, "X-Forwarded-For", address).status
	}
	for range 400 {
		from("203.0.113.9")
	}
	if mine, other := from("203.0.113.9"), from("198.51.100.7"); mine != 429 || other != 201 {
		t.Errorf("after a flood of one address it gets %d, another one %d", mine, other)
	}
}

// Every endpoint of clients answers JSON, and never redirects.
func TestJSONErrors(t *testing.T) {
	r := newRig(t, nil)
	c := r.app()
	for _, at := range []string{"/token", "/register", "/revoke", "/jwks.json", "/nothing",
		"/.well-known/openid-configuration"} {
		for _, kind := range []string{"application/json", "text/plain", "multipart/form-data", ""} {
			for _, body := range []string{"", "{", "grant_type=password",
				"grant_type=authorization_code&grant_type=refresh_token", strings.Repeat("a=b&", 20000)} {
				a := c.post(at, kind, body)
				if a.status < 400 || a.status >= 500 ||
					!strings.HasPrefix(a.header.Get("Content-Type"), "application/json") || a.text("error") == "" {
					t.Errorf("POST %s: %d %s", at, a.status, a.body)
				}
			}
		}
		for _, method := range []string{"PUT", "DELETE", "GET"} {
			if a := c.do(method, at, nil); a.status >= 300 && a.status < 400 || a.status >= 500 ||
				!strings.HasPrefix(a.header.Get("Content-Type"), "application/json") {
				t.Errorf("%s %s: %d %v", method, at, a.status, a.header)
			}
		}
	}
	if a := c.do("OPTIONS", "/token", nil, "Origin", "https://inspector.example"); a.status != 204 || a.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("preflight: %d", a.status)
	}
	if a := r.browser().do("GET", "/", nil); a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("the owner's page is open to other origins")
	}
}

// No secret is in the log, the audit, an error or the state's clear text.
func TestNoLeaks(t *testing.T) {
	r := newRig(t, nil)
	owner, c := r.owner(), r.app()
	code := c.approve(owner, c.query()).Get("code")
	tokens := c.exchange(code)
	again := c.exchange(code).body + c.refresh(tokens.text("refresh_token")+"x").body
	r.browser().do("POST", "/sign-in", form("password", "not the password"))
	r.kill()
	all := r.log.String() + again
	for _, dir := range []string{"audit", "state", "state-revoked"} {
		files, _ := filepath.Glob(filepath.Join(r.dir, dir, "*"))
		for _, name := range files {
			raw, _ := os.ReadFile(name)
			all += string(raw)
		}
	}
	for name, secret := range map[string]string{
		"code": code, "access token": tokens.text("access_token"), "refresh token": tokens.text("refresh_token"),
		"password":         password,
		"a wrong password": "not the password", "verifier": c.verifier,
	} {
		if strings.Contains(all, secret) {
			t.Errorf("the %s was written down", name)
		}
	}
	for _, event := range []string{"consent", "grant", "code_reused", "sign_in_refused"} {
		if !strings.Contains(all, `"`+event+`"`) {
			t.Errorf("the audit lacks %s", event)
		}
	}
}

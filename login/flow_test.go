package main

import (
	"crypto/ecdsa"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"encoding/json"
)

// The whole way of a client, and what its token says.
func TestFlow(t *testing.T) {
	r := newRig(t, nil)
	owner, c := r.owner(), r.app()
	to := c.approve(owner, c.query(), "read_file", "ask:write_file")
	if to.Get("at") != callback || to.Get("state") != "the state" || to.Get("iss") != r.base {
		t.Errorf("landed at %v", to)
	}
	a := c.exchange(to.Get("code"))
	if a.status != 200 || a.text("token_type") != "Bearer" || a.json["expires_in"].(float64) > 300 || a.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("tokens: %d %s", a.status, a.body)
	}
	body := verified(t, r, a.text("access_token"))
	want := map[string]any{
		"iss": r.base, "sub": "owner", "aud": r.sandbox, "client_id": c.id, "scope": "mcp offline_access",
		"tools": []any{"read_file", "ask:write_file"}, "egress": []any{},
	}
	for name, value := range want {
		if !reflect.DeepEqual(body[name], value) {
			t.Errorf("%s = %v, not %v", name, body[name], value)
		}
	}
	life := body["exp"].(float64) - body["iat"].(float64)
	if life > 300 || body["jti"] == "" || len(body["grant"].(string)) < 20 {
		t.Errorf("claims %v", body)
	}
	again := c.refresh(a.text("refresh_token"))
	if again.status != 200 || verified(t, r, again.text("access_token"))["grant"] != body["grant"] {
		t.Errorf("refreshed: %d %s", again.status, again.body)
	}
}

// verified checks a token by the published keys, as the edge does.
func verified(t *testing.T, r *rig, token string) map[string]any {
	t.Helper()
	var set jose.JSONWebKeySet
	if err := json.Unmarshal([]byte(r.browser().do("GET", "/jwks.json", nil).body), &set); err != nil {
		t.Fatal(err)
	}
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	h := parsed.Headers[0]
	if h.ExtraHeaders["typ"] != "at+jwt" || len(set.Key(h.KeyID)) != 1 {
		t.Fatalf("header %v", h)
	}
	body := map[string]any{}
	if err := parsed.Claims(set.Key(h.KeyID)[0].Key.(*ecdsa.PublicKey), &body); err != nil {
		t.Fatal(err)
	}
	return body
}

// One issuer string, byte for byte: in the metadata at all four places, in the token and
// in the answer to the browser (claude.ai and Claude Code compare).
func TestOneIssuer(t *testing.T) {
	r := newRig(t, nil)
	for _, at := range []string{
		r.origin + "/.well-known/oauth-authorization-server/mcp-login", r.origin + "/.well-known/openid-configuration/mcp-login",
		r.base + "/.well-known/openid-configuration", r.base + "/.well-known/oauth-authorization-server", r.base + "/.well-known/openid-configuration/",
	} {
		a := r.browser().do("GET", at, nil)
		if a.status != 200 || a.text("issuer") != r.base || a.header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %d %s", at, a.status, a.body)
		}
		if fmt.Sprint(a.json["code_challenge_methods_supported"]) != "[S256]" || a.json["authorization_response_iss_parameter_supported"] != true {
			t.Errorf("%s: %s", at, a.body)
		}
		if strings.Contains(a.body, "null") {
			t.Errorf("%s: a null member: %s", at, a.body)
		}
	}
	if a := r.browser().do("GET", r.origin+"/.well-known/oauth-authorization-server", nil); a.status != 404 {
		t.Errorf("the root form is %d: header clients would be drawn away", a.status)
	}
}

// A client that sends no resource gets the first, also on refresh; a resource below a
// subtree is its own audience.
func TestResources(t *testing.T) {
	r := newRig(t, nil)
	owner, c := r.owner(), r.app()
	a := c.exchange(c.approve(owner, c.query("resource", "")).Get("code"), "resource", "")
	if _, body := claims(a.text("access_token")); body["aud"] != r.sandbox {
		t.Errorf("audience %v", body["aud"])
	}
	if a = c.refresh(a.text("refresh_token"), "resource", r.sandbox+"/"); a.status != 200 {
		t.Errorf("a slash at the end: %s", a.body)
	}
	hub := r.origin + "/mcp-oauth/hub/servers/files/mcp"
	a = c.exchange(c.approve(owner, c.query("resource", hub), "files/*").Get("code"), "resource", hub)
	if _, body := claims(a.text("access_token")); body["aud"] != hub {
		t.Errorf("audience %v", body["aud"])
	}
	for _, bad := range []string{r.origin + "/mcp-oauth/hub/../sandbox/mcp", r.origin + "/mcp-oauth/hub/%2e%2e/x", r.origin + "/mcp-oauth/hubris", "https://evil.example/mcp"} {
		if page := owner.do("GET", "/authorize?"+c.query("resource", bad).Encode(), nil); page.status != 400 || !strings.Contains(page.body, "invalid_target") {
			t.Errorf("%s: %d", bad, page.status)
		}
	}
}

// The keys that rest on the first start: a code, good once.
func TestFirstStart(t *testing.T) {
	r := prepare(t, nil)
	r.start()
	code := oneTimeCode(r.log.String())
	if code == "" {
		t.Fatalf("no code in the log: %s", r.log)
	}
	stranger, b := r.browser(), r.browser()
	if a := stranger.do("POST", "/setup", form("code", "AAAAA-AAAAA-AAAAA-AAAAA")); a.status != 403 {
		t.Errorf("a wrong code: %d", a.status)
	}
	if a := b.do("POST", "/setup", form("code", strings.ToLower(code))); a.status != 303 {
		t.Fatalf("the right code: %d %s", a.status, a.body)
	}
	if a := stranger.do("POST", "/setup", form("code", code)); a.status != 403 {
		t.Errorf("the code a second time: %d", a.status)
	}
	page := b.do("GET", "/", nil)
	f := fields(page.body, "/mcp-login/change")
	f.Set("what", "password")
	f.Set("new", "short")
	if a := b.do("POST", "/change", f); !strings.Contains(a.body, "12 characters") {
		t.Errorf("a short password: %s", a.body)
	}
	f.Set("new", password)
	if a := b.do("POST", "/change", f); a.status != 303 {
		t.Fatalf("setting the password: %d %s", a.status, a.body)
	}
	if a := b.do("GET", "/", nil); !strings.Contains(a.body, "Connected clients") {
		t.Errorf("not signed in: %s", a.body)
	}
	r.owner()
	r.kill()
	r.start()
	if strings.Contains(r.log.String(), `"code"`) {
		t.Error("a code is printed although there is an owner")
	}
}

// What was registered and approved outlives a restart, and so do grants and keys.
func TestRestart(t *testing.T) {
	r := newRig(t, nil)
	owner, c := r.owner(), r.app()
	tokens := c.connect(owner)
	fresh := r.app()
	r.kill()
	r.start()
	verified(t, r, tokens.text("access_token"))
	if a := c.refresh(tokens.text("refresh_token")); a.status != 200 {
		t.Errorf("refresh after a restart: %s", a.body)
	}
	owner = r.owner()
	fresh.connect(owner)
	c.connect(owner)
}

// A revoked grant is in the edge's list before the verb returns.
func TestRevocation(t *testing.T) {
	r := newRig(t, nil)
	owner, c := r.owner(), r.app()
	for name, revoke := range map[string]func(id string, tokens *reply){
		"verb":          func(id string, _ *reply) { _, err := r.verb("", "revoke", id); check(t, err) },
		"refresh token": func(_ string, a *reply) { c.revoke(a.text("refresh_token")) },
		"access token":  func(_ string, a *reply) { c.revoke(a.text("access_token")) },
		"page": func(id string, _ *reply) {
			f := fields(owner.do("GET", "/", nil).body, "/mcp-login/change")
			f.Set("grant", id)
			f.Set("what", "revoke")
			owner.do("POST", "/change", f)
		},
	} {
		tokens, other := c.connect(owner), c.connect(owner)
		_, body := claims(tokens.text("access_token"))
		id := body["grant"].(string)
		if list, err := r.verb("", "grants"); err != nil || !strings.Contains(list, id) {
			t.Errorf("%s: not listed: %s %v", name, list, err)
		}
		revoke(id, tokens)
		if !strings.Contains(r.revoked(), id+"\n") {
			t.Errorf("%s: not in the list", name)
		}
		if a := c.refresh(tokens.text("refresh_token")); a.text("error") != "invalid_grant" {
			t.Errorf("%s: still refreshed: %s", name, a.body)
		}
		if a := c.refresh(other.text("refresh_token")); a.status != 200 {
			t.Errorf("%s: another grant was lost: %s", name, a.body)
		}
	}
	if a := c.do("POST", "/revoke", form("token", "nonsense", "client_id", c.id)); a.status != 200 {
		t.Errorf("an unknown token: %d (RFC 7009, section 2.2)", a.status)
	}
	r.kill()
	if out, err := r.verb("", "revoke", "nonsense"); err == nil || !strings.Contains(out, "no grant") {
		t.Errorf("without a server: %s", out)
	}
}

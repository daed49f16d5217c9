package plugin

import (
	"context"
	"strings"
	"testing"
)

func oauthConfig(issuer string) *OAuth {
	return &OAuth{Issuer: issuer, Audience: "https://n.example/mcp/mcp", Tools: []string{"read_file"},
		Principals: map[string][]string{"alice": {"read_file"}, "bob": {"read_file"}, "alice@n.example": {"read_file"}}}
}

// spoiled is a row of mistakes in oauth.
func spoiled(spoil func(*OAuth)) func(*Config) {
	return func(c *Config) {
		c.OAuth = oauthConfig("https://id.example")
		spoil(c.OAuth)
	}
}

var oauthMistakes = []struct {
	want  string
	spoil func(*Config)
}{
	{"oauth.issuer is", func(c *Config) { c.OAuth = oauthConfig("") }},
	{"oauth.issuer is", func(c *Config) { c.OAuth = oauthConfig("http://id.example") }},
	{"oauth.issuer is", func(c *Config) { c.OAuth = oauthConfig("https://user@id.example") }},
	{"oauth.audience is", func(c *Config) {
		c.OAuth = oauthConfig("https://id.example")
		c.OAuth.Audience = "https://n.example/other"
	}},
	{"oauth.jwksUrl is", func(c *Config) { c.OAuth = oauthConfig("https://id.example"); c.OAuth.JWKSURL = "ftp://x" }},
	{"oauth: tools is empty", func(c *Config) { c.OAuth = oauthConfig("https://id.example"); c.OAuth.Tools = nil }},
	{"oauth.scopes has", func(c *Config) { c.OAuth = oauthConfig("https://id.example"); c.OAuth.Scopes = []string{`a"b`} }},
	{"oauth.isuer is not", func(c *Config) {
		c.OAuth = oauthConfig("https://id.example")
		c.OAuth.Extra = map[string]interface{}{"isuer": "x"}
	}},
	{`list who may, as principals: {"value of sub": ["tool"]}`, spoiled(func(o *OAuth) { o.Principals = nil })},
	{"value of email", spoiled(func(o *OAuth) { o.Principals = nil; o.PrincipalClaim = "email" })},
	{"oauth.principals: alice: tools is empty", spoiled(func(o *OAuth) { o.Principals["alice"] = nil })},
	{`of which oauth.tools allows nothing`,
		spoiled(func(o *OAuth) { o.Principals["alice"] = []string{"run_command"} })},
	{`oauth.principals has "a b"`, spoiled(func(o *OAuth) { o.Principals["a b"] = []string{"*"} })},
	{`oauth.principals has "a#b"`, spoiled(func(o *OAuth) { o.Principals["a#b"] = []string{"*"} })},
	{"is not the name of a claim", spoiled(func(o *OAuth) { o.ToolsClaim = "a b" })},
	{"is not the name of a claim", spoiled(func(o *OAuth) { o.PrincipalClaim = `a"b` })},
	{"oauth.egressClaim is given, but no egress", spoiled(func(o *OAuth) { o.EgressClaim = "egress" })},
	{"oauth: egress has", spoiled(func(o *OAuth) { o.Egress = []string{"https://a.example"} })},
	{"name the claim that has a token's grant in grantClaim",
		spoiled(func(o *OAuth) { o.RevokedFile = "/run/revoked/list" })},
	{"give that URL too, as resource: https://host/mcp",
		spoiled(func(o *OAuth) { o.Audience = "7c1f9a30-0000-4000-8000-3f0000000001" })},
	{"give that URL too, as resource", spoiled(func(o *OAuth) { o.Audience = "api://app" })},
	{"give that URL too, as resource", spoiled(func(o *OAuth) { o.Audience = "" })},
	{"oauth.audience is \"\": give the aud claim",
		spoiled(func(o *OAuth) { o.Audience = ""; o.Resource = "https://n.example/mcp" })},
	{"oauth.resource is", spoiled(func(o *OAuth) { o.Resource = "http://n.example/mcp" })},
	{"oauth.resource is", spoiled(func(o *OAuth) { o.Resource = "https://n.example/other" })},
	{"oauth.resource is", spoiled(func(o *OAuth) { o.Resource = "https://n.example/mcp?x" })},
	{"http only within this machine", spoiled(func(o *OAuth) { o.JWKSURL = "http://id.example.net/keys" })},
	{"http only within this machine", spoiled(func(o *OAuth) { o.JWKSURL = "http://8.8.8.8/keys" })},
	{"http only within this machine", spoiled(func(o *OAuth) { o.JWKSURL = "http://keycloak.internal.example/keys" })},
	{"oauth.jwksUrl is", spoiled(func(o *OAuth) { o.JWKSURL = "https://user:x@id.example/keys" })},
}

// Keys in clear text are accepted within one's own network, with a warning that
// says what that means.
func TestClearTextKeys(t *testing.T) {
	for from, warned := range map[string]bool{
		"http://keycloak:8080/certs": true, "http://10.1.2.3/certs": true, "http://[fd00::1]/certs": true,
		"http://id.home.arpa/keys":              true,
		"http://id.auth.svc.cluster.local/keys": true, "http://127.0.0.1:18083/keys": false,
		"http://localhost/keys": false, "https://id.example/keys": false,
	} {
		log := logged(t)
		c := config()
		c.OAuth = oauthConfig("https://id.example")
		c.OAuth.JWKSURL = from
		if _, err := New(context.Background(), &seen{}, c, "name"); err != nil {
			t.Error(err)
		}
		if got := strings.Contains(log.String(), "can sign tokens that are believed here"); got != warned {
			t.Errorf("%s: warned %v: %s", from, got, log.String())
		}
	}
}

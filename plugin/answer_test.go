package plugin

import (
	"net/http"
	"strings"
	"testing"
)

// Where a client could follow with its token is inside the prefix, or nowhere.
func TestAddressesAreMapped(t *testing.T) {
	log := logged(t)
	c := foreign()
	c.BackendOrigins = []string{"http://inner.example:8080"}
	for _, key := range []string{"Location", "Content-Location"} {
		for ref, want := range map[string]string{
			"/other/steal": "/foo/other/steal", "steal": "/foo/steal", "?a=b": "/foo/mcp?a=b", "http://example.com/mcp/": "/foo/mcp/",
			"http://127.0.0.1:3001/mcp/": "/foo/mcp/", "http://inner.example:8080/x": "/foo/x", "/foo/x": "/foo/x",
			"http://evil.example/": "", "//evil.example/": "", "/../admin": "", "/%2e%2e/admin": "", `/\evil.example`: "", "https://inner.example:8080/x": "",
			"http://example.com:8443/": "", "javascript:alert(1)": "", "/a\u2028b": "",
		} {
			for _, status := range []int{200, 201, 302, 307, 308} {
				b := &answering{status: status, header: http.Header{key: {ref}}}
				rec := do(start(t, c, b), post("/foo/mcp", readFile))
				if want == "" && (rec.Code != 502 || rec.Header().Get(key) != "") {
					t.Errorf("%d with %s %s: %d %q", status, key, ref, rec.Code, rec.Header().Get(key))
				}
				if want != "" && (rec.Code != status || rec.Header().Get(key) != want) {
					t.Errorf("%d with %s %s: %d %q, want %q", status, key, ref, rec.Code, rec.Header().Get(key), want)
				}
			}
		}
	}
	b := &answering{status: 307, header: http.Header{"Location": {"/a", "http://evil.example/"}}}
	if rec := do(start(t, foreign(), b), post("/foo/mcp", readFile)); rec.Code != 502 || rec.Header().Get("Location") != "" {
		t.Errorf("two addresses: %d %q", rec.Code, rec.Header()["Location"])
	}
	if !strings.Contains(log.String(), "its Location cannot be mapped: it is on another origin") {
		t.Error("no line says what was stopped")
	}
}

// A server that refuses the edge's token is the owner's business, not the client's.
func TestBackendRefusesTheEdge(t *testing.T) {
	log := logged(t)
	for _, status := range []int{401, 407} {
		b := &answering{status: status, body: "no", header: http.Header{"Www-Authenticate": {`Bearer resource_metadata="https://evil.example/"`}, "Proxy-Authenticate": {"Basic"}}}
		for _, c := range []*Config{foreign(), config()} {
			rec := do(start(t, c, b), post(c.PathPrefix+"/mcp", readFile))
			if rec.Code != 502 || rec.Header().Get("Www-Authenticate") != "" || strings.HasPrefix(rec.Body.String(), "no") {
				t.Errorf("%d: status %d, %v", status, rec.Code, rec.Header())
			}
		}
	}
	if text := log.String(); !strings.Contains(text, `"level":"ERROR"`) || !strings.Contains(text, "give backendTokenFile the backend's own") {
		t.Errorf("log: %s", text)
	}
	b := &answering{status: 403, body: "no", header: http.Header{"Www-Authenticate": {"Bearer"}}}
	if rec := do(start(t, foreign(), b), post("/foo/mcp", readFile)); rec.Code != 403 || rec.Header().Get("Www-Authenticate") != "" {
		t.Errorf("a challenge beside 403: %d %v", rec.Code, rec.Header())
	}
}

// Headers by which somebody is named, or that outlive an answer, pass by a
// setting only; others pass.
func TestHeadersPassBySetting(t *testing.T) {
	log := logged(t)
	planted := []string{"X-Username", "X-Userinfo", "X-User-Id", "X-Remote-Groups", "X-Webauth-Email", "X-Consumer-Username", "X-Pomerium-Jwt-Assertion",
		"X-Jwt-Claim-Sub", "Oidc-Claim-Email", "X-Ssl-Client-Verify", "X-Tls-Client-Subject", "X-Ms-Token-Aad-Id-Token", "True-Client-Ip", "Cf-Connecting-Ip",
		"X-Original-Remote-Addr", "X-Rewrite-Uri", "X-Http-Host-Override", "X-Http-Path-Override", "X-Script-Name"}
	honest := []string{"X-Auth-Token", "X-User-Agent", "X-Atlassian-Token", "X-Request-Id", "Remote", "X-Overrides"}
	request := func(c *Config) http.Header {
		s := &seen{}
		r := post("/foo/mcp", readFile)
		for _, key := range []string{"Cookie", "Remote-User", "X-Forwarded-User", "X-Forwarded-Email", "X-Auth-Request-Email", "X-Authentik-Username", "X-Envoy-Original-Path",
			"X-Override-Url", "X-Forwarded-Path", "X-Host", "X-Api-Key", "X-Forwarded-For", "Mcp-Param-a_b"} {
			r.Header[key] = []string{"x"}
		}
		for _, key := range append(honest, planted...) {
			r.Header[key] = []string{"x"}
		}
		do(start(t, c, s), r)
		return s.request.Header
	}
	h := request(foreign())
	for _, key := range []string{"Cookie", "Remote-User", "X-Forwarded-User", "X-Forwarded-Email", "X-Auth-Request-Email", "X-Authentik-Username", "X-Envoy-Original-Path", "X-Override-Url", "X-Forwarded-Path", "X-Host"} {
		if h[key] != nil {
			t.Errorf("%s reaches the backend", key)
		}
	}
	for _, key := range planted {
		if h[key] != nil {
			t.Errorf("%s reaches the backend", key)
		}
	}
	for _, key := range append(honest, "X-Api-Key", "X-Forwarded-For", "Mcp-Param-a_b") {
		if h[key] == nil {
			t.Errorf("%s does not reach the backend", key)
		}
	}
	c := foreign()
	c.RequestHeaders = []string{"cookie", " X-Forwarded-Email"}
	if h = request(c); h["Cookie"] == nil || h["X-Forwarded-Email"] == nil || h["Remote-User"] != nil {
		t.Errorf("with a setting: %v", h)
	}
	answer := func(c *Config) http.Header {
		header := http.Header{}
		for _, key := range []string{"Set-Cookie", "Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc", "Refresh", "Set-Login", "Use-As-Dictionary", "Speculation-Rules", "Secure-Session-Registration", "Surrogate-Control", "X-Ratelimit-Limit", "Link", "Access-Control-Allow-Origin", "Mcp-Session-Id"} {
			header[key] = []string{"x"}
		}
		return do(start(t, c, &answering{status: 200, body: "{}", header: header}), post("/foo/mcp", readFile)).Header()
	}
	h = answer(foreign())
	for _, key := range []string{"Set-Cookie", "Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc", "Refresh", "Set-Login", "Use-As-Dictionary", "Speculation-Rules", "Secure-Session-Registration", "Surrogate-Control"} {
		if h[key] != nil {
			t.Errorf("%s reaches the client", key)
		}
	}
	for _, key := range []string{"X-Ratelimit-Limit", "Link", "Access-Control-Allow-Origin", "Mcp-Session-Id"} {
		if h[key] == nil {
			t.Errorf("%s does not reach the client", key)
		}
	}
	c.ResponseHeaders = []string{"Set-Cookie"}
	if h = answer(c); h["Set-Cookie"] == nil || h["Alt-Svc"] != nil {
		t.Errorf("with a setting: %v", h)
	}
	text := log.String()
	if !strings.Contains(text, "a request had the header Cookie, which does not pass; requestHeaders lets it through") ||
		!strings.Contains(text, "an answer had the header Set-Cookie, which does not pass; responseHeaders lets it through") || strings.Contains(text, "X-Host") {
		t.Errorf("log: %s", text)
	}
}

// One line for each name, whatever is sent, and not more than a hundred.
func TestDroppedNamesAreToldOnce(t *testing.T) {
	log := logged(t)
	h := start(t, foreign(), &seen{})
	for i := 0; i < 300; i++ {
		r := post("/foo/mcp", readFile)
		r.Header["Cookie"] = []string{"a"}
		r.Header["X-Envoy-"+strings.Repeat("A", i)] = []string{"a"}
		do(h, r)
	}
	text := log.String()
	if n := strings.Count(text, "header Cookie,"); n != 1 {
		t.Errorf("Cookie is told %d times", n)
	}
	if n := strings.Count(text, "does not pass"); n > maxNames {
		t.Errorf("%d names are told", n)
	}
}

package main

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// Consent cannot be given by another site's form, without the page, twice, for more than
// was offered, or inside a frame.
func TestConsentAttacks(t *testing.T) {
	r := newRig(t, nil)
	owner, c := r.owner(), r.app()
	open := func() url.Values {
		f := fields(owner.do("GET", "/authorize?"+c.query().Encode(), nil).body, "/mcp-login/consent")
		f["tools"], f["days"], f["decision"] = []string{"read_file"}, []string{"30"}, []string{"allow"}
		return f
	}
	code := func(a *reply) string { return landing(a.body).Get("code") }
	f := open()
	if code(owner.do("POST", "/consent", f, "Sec-Fetch-Site", "same-origin")) == "" {
		t.Error("the twin gave no code")
	}
	if code(owner.do("POST", "/consent", f)) != "" {
		t.Error("the same page gave a second code")
	}
	for name, pairs := range map[string][]string{
		"no token": {"csrf", ""}, "a wrong token": {"csrf", "AAAA"}, "no page": {"request", ""},
		"another page":               {"request", "AAAA"},
		"a tool that is not offered": {"tools", "delete_everything"}, "everything": {"tools", "*"},
		"no tool":                    {"tools", ""},
		"egress that is not offered": {"egress", "evil.example"}, "without end": {"days", "100000"},
		"a negative time": {"days", "-1"}, "deny": {"decision", "deny"},
		"no decision": {"decision", ""}, "without ask": {"tools", "write_file"},
	} {
		if a := owner.do("POST", "/consent", change(open(), pairs)); code(a) != "" {
			t.Errorf("%s gave a code", name)
		}
	}
	for _, site := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"}} {
		if a := owner.do("POST", "/consent", open(), site...); a.status != 403 || code(a) != "" {
			t.Errorf("%v: %d", site, a.status)
		}
	}
	stranger := r.browser()
	if a := stranger.do("POST", "/consent", open()); code(a) != "" {
		t.Error("a stranger gave a code")
	}
	page := owner.do("GET", "/authorize?"+c.query().Encode(), nil)
	policy := page.header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "frame-ancestors 'none'") || !strings.Contains(policy, "default-src 'none'") ||
		strings.Contains(policy, "script-src") ||
		page.header.Get("X-Frame-Options") != "DENY" || strings.Contains(page.body, "<script") {
		t.Errorf("consent page: %v", page.header)
	}
}

// Without ownHost each consent needs the password again.
func TestSharedHost(t *testing.T) {
	r := newRig(t, func(c map[string]any) { delete(c, "ownHost") })
	owner, c := r.owner(), r.app()
	f := fields(owner.do("GET", "/authorize?"+c.query().Encode(), nil).body, "/mcp-login/consent")
	f["tools"], f["days"], f["decision"] = []string{"read_file"}, []string{"30"}, []string{"allow"}
	if a := owner.do("POST", "/consent", f); landing(a.body) != nil || a.status != 403 ||
		!strings.Contains(a.body, `value="read_file" checked`) {
		t.Errorf("without the password: %d %s", a.status, a.body)
	}
	f.Set("password", password)
	if a := owner.do("POST", "/consent", f); landing(a.body).Get("code") == "" {
		t.Errorf("with the password: %d %s", a.status, a.body)
	}
}

// The owner's pages are those of the issuer's host name: on another name that the same
// Traefik serves, or that a stranger's DNS points here, a page of that origin could be the
// owner. What clients read has no cookie and answers on all names.
func TestHostOfPages(t *testing.T) {
	r := newRig(t, nil)
	owner := r.owner()
	get := func(at, host string) (int, string) {
		req, err := http.NewRequest("GET", r.base+at, nil)
		check(t, err)
		req.Host = host
		resp, err := owner.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		raw, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(raw)
	}
	right := strings.TrimPrefix(r.origin, "http://")
	for _, host := range []string{right, strings.ToUpper(right)} {
		if code, body := get("/", host); code != 200 || !strings.Contains(body, "Connected clients") {
			t.Errorf("the twin %s: %d %s", host, code, body)
		}
	}
	for _, host := range []string{"evil.example", "localhost", right + "0", "evil.example:443", right + ".",
		"x." + right} {
		for _, at := range []string{"", "/", "/authorize?client_id=x", "/style.css"} {
			if code, body := get(at, host); code != 421 || strings.Contains(body, "csrf") ||
				!strings.Contains(body, r.base) {
				t.Errorf("%s%s: %d %s", host, at, code, body)
			}
		}
		if code, _ := get("/jwks.json", host); code != 200 {
			t.Errorf("the keys on %s: %d", host, code)
		}
	}
}

// A host is the same with and without the default port of the issuer's scheme, which
// browsers leave out and some proxies write, and another with any other port.
func TestPortOfPages(t *testing.T) {
	for issuer, hosts := range map[string]map[string]int{
		"https://h.example/mcp-login": {"h.example": 200, "h.example:443": 200, "h.example:80": 421,
			"h.example:8443": 421, "[h.example]": 421},
		"https://h.example:443/mcp-login":  {"h.example": 200, "h.example:443": 200, "h.example:80": 421},
		"https://h.example:80/mcp-login":   {"h.example:80": 200, "h.example": 421, "h.example:443": 421},
		"https://h.example:8443/mcp-login": {"h.example:8443": 200, "h.example": 421},
		"http://localhost/mcp-login":       {"localhost": 200, "localhost:80": 200, "localhost:443": 421},
		"http://localhost:443/mcp-login":   {"localhost:443": 200, "localhost": 421, "localhost:80": 421},
		"http://[::1]/mcp-login":           {"[::1]": 200, "[::1]:80": 200, "[::1]:443": 421, "[::1:80]": 421},
	} {
		r := prepare(t, func(c map[string]any) { c["issuer"] = issuer })
		r.start()
		for host, want := range hosts {
			req, err := http.NewRequest("GET", r.origin+"/mcp-login/", nil)
			check(t, err)
			req.Host = host
			resp, err := http.DefaultClient.Do(req)
			check(t, err)
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s at the host %s: %d, want %d", issuer, host, resp.StatusCode, want)
			}
		}
		r.kill()
	}
}

// A session exists only after the owner was proved, and has a new name each time: none
// can be planted beforehand.
func TestSessionFixation(t *testing.T) {
	r := newRig(t, nil)
	planted := "sallyport-session=AAAAAAAAAAAAAAAAAAAAAAAAAA"
	b := r.browser()
	a := b.do("POST", "/sign-in", form("password", password), "Cookie", planted)
	set := strings.Join(a.header.Values("Set-Cookie"), "\n")
	if a.status != 303 || !strings.Contains(set, "sallyport-session=") || strings.Contains(set, planted) ||
		!strings.Contains(set, "HttpOnly") || !strings.Contains(set, "SameSite=Lax") ||
		!strings.Contains(set, "Path=/mcp-login;") {
		t.Errorf("%d %s", a.status, set)
	}
	if a := r.browser().do("GET", "/", nil, "Cookie", planted); strings.Contains(a.body, "Connected clients") {
		t.Error("the planted session is signed in")
	}
	for _, at := range []string{r.base, r.base + "/"} {
		if a := b.do("GET", at, nil); !strings.Contains(a.body, "Connected clients") {
			t.Errorf("the twin is not signed in at %s", at)
		}
	}
	for _, next := range []string{"https://evil.example/?client_id=x", "//evil.example?client_id=x", "client_id=x&redirect_uri=https://evil.example/"} {
		a := r.browser().do("POST", "/sign-in", form("password", password, "next", next))
		if at := a.header.Get("Location"); !strings.HasPrefix(at, "/mcp-login/") {
			t.Errorf("next %q leads to %s", next, at)
		}
	}
}

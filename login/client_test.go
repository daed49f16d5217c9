package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// app is an OAuth client.
type app struct {
	*browser
	id, redirect, verifier string
}

const callback = "https://claude.example/cb"

func (r *rig) app(redirects ...string) *app {
	r.t.Helper()
	if len(redirects) == 0 {
		redirects = []string{callback}
	}
	c := &app{r.browser(), "", redirects[0], strings.Repeat("v", 43)}
	a := c.register(map[string]any{"client_name": "An app", "redirect_uris": redirects})
	if a.status != 201 {
		r.t.Fatalf("registering: %d %s", a.status, a.body)
	}
	c.id = a.text("client_id")
	return c
}

func (c *app) register(body map[string]any) *reply {
	raw, _ := json.Marshal(body)
	return c.post("/register", "application/json", string(raw))
}

func (c *app) post(to, kind, body string, header ...string) *reply {
	c.r.t.Helper()
	req, err := http.NewRequest("POST", c.r.base+to, strings.NewReader(body))
	if err != nil {
		c.r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.client.Do(req)
	if err != nil {
		c.r.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(resp.Body)
	a := &reply{status: resp.StatusCode, header: resp.Header, body: string(raw)}
	_ = json.Unmarshal(raw, &a.json)
	return a
}

// query is the authorization request, changed by pairs; an empty value removes.
func (c *app) query(pairs ...string) url.Values {
	sum := sha256.Sum256([]byte(c.verifier))
	q := url.Values{
		"response_type": {"code"}, "client_id": {c.id}, "redirect_uri": {c.redirect}, "state": {"the state"}, "scope": {"mcp offline_access"},
		"resource": {c.r.sandbox}, "code_challenge_method": {"S256"}, "code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])},
	}
	return change(q, pairs)
}

func change(q url.Values, pairs []string) url.Values {
	for i := 0; i < len(pairs); i += 2 {
		if q.Del(pairs[i]); pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}

var hidden = regexp.MustCompile(`name="([a-z]+)" value="([^"]*)"`)

// fields are the hidden fields of a page's form to an action.
func fields(page, action string) url.Values {
	v := url.Values{}
	_, page, _ = strings.Cut(page, `action="`+action+`"`)
	page, _, _ = strings.Cut(page, "</form>")
	for _, m := range hidden.FindAllStringSubmatch(page, -1) {
		if m[1] == "csrf" || m[1] == "request" || m[1] == "next" || m[1] == "state" {
			v.Set(m[1], html.UnescapeString(m[2]))
		}
	}
	return v
}

var refresh = regexp.MustCompile(`http-equiv="refresh" content="0;url=([^"]*)"`)

// landing is where a page after consent navigates to.
func landing(page string) url.Values {
	m := refresh.FindStringSubmatch(page)
	if m == nil {
		return nil
	}
	u, err := url.Parse(html.UnescapeString(m[1]))
	if err != nil {
		return nil
	}
	q := u.Query()
	u.RawQuery = ""
	q.Set("at", u.String())
	return q
}

// approve lets the owner agree, and returns where the browser lands.
func (c *app) approve(owner *browser, q url.Values, ticks ...string) url.Values {
	c.r.t.Helper()
	page := owner.do("GET", "/authorize?"+q.Encode(), nil)
	f := fields(page.body, "/mcp-login/consent")
	if page.status != 200 || f.Get("request") == "" {
		c.r.t.Fatalf("no consent page: %d %s", page.status, page.body)
	}
	if len(ticks) == 0 {
		ticks = []string{"read_file"}
	}
	f["tools"], f["days"], f["decision"] = ticks, []string{"30"}, []string{"allow"}
	done := owner.do("POST", "/consent", f)
	to := landing(done.body)
	if done.status != 200 || to.Get("code") == "" {
		c.r.t.Fatalf("no code: %d %s", done.status, done.body)
	}
	return to
}

// exchange redeems a code; pairs change the request.
func (c *app) exchange(code string, pairs ...string) *reply {
	c.r.t.Helper()
	return c.do("POST", "/token", change(url.Values{
		"grant_type": {"authorization_code"}, "client_id": {c.id}, "code": {code}, "redirect_uri": {c.redirect},
		"code_verifier": {c.verifier}, "resource": {c.r.sandbox},
	}, pairs))
}

func (c *app) refresh(token string, pairs ...string) *reply {
	c.r.t.Helper()
	return c.do("POST", "/token", change(url.Values{"grant_type": {"refresh_token"}, "client_id": {c.id}, "refresh_token": {token}}, pairs))
}

// connect is the whole way to tokens.
func (c *app) connect(owner *browser, ticks ...string) *reply {
	c.r.t.Helper()
	a := c.exchange(c.approve(owner, c.query(), ticks...).Get("code"))
	if a.status != 200 {
		c.r.t.Fatalf("no tokens: %d %s", a.status, a.body)
	}
	return a
}

// claims reads an access token without checking it.
func claims(token string) (header, body map[string]any) {
	parts := strings.Split(token, ".")
	for i, to := range []*map[string]any{&header, &body} {
		raw, _ := base64.RawURLEncoding.DecodeString(parts[i])
		_ = json.Unmarshal(raw, to)
	}
	return header, body
}

func form(pairs ...string) url.Values { return change(url.Values{}, pairs) }

func (c *app) revoke(token string) { c.do("POST", "/revoke", form("token", token, "client_id", c.id)) }

func oneTimeCode(log string) string {
	if m := regexp.MustCompile(`"code":"([A-Z0-9-]+)"`).FindStringSubmatch(log); m != nil {
		return m[1]
	}
	return ""
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

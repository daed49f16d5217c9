package replay

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
)

// authorize makes the link for the owner, looks whether the issuer takes it, and
// reads the address that the browser was sent to.
func (w *Walk) authorize(ctx context.Context) {
	w.verifier = rand.Text() + rand.Text() // at least 43 characters (RFC 7636, section 4.1)
	sum := sha256.Sum256([]byte(w.verifier))
	state := rand.Text()
	link, err := url.Parse(w.server.Authorization)
	if err != nil {
		w.stumble("no-endpoints", "authorization_endpoint: %v", err)
		return
	}
	q := link.Query()
	for name, value := range map[string]string{"response_type": "code", "client_id": w.client,
		"redirect_uri": w.redirect, "state": state,
		"code_challenge": base64.RawURLEncoding.EncodeToString(sum[:]), "code_challenge_method": "S256",
		"scope": w.scope()} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if w.step.Resource {
		q.Set("resource", w.resource.Resource)
	}
	usual := q.Get("scope")
	if w.step.Extra != "" {
		q.Set("scope", strings.TrimSpace(usual+" "+w.step.Extra))
	}
	a := w.visit(ctx, link, q)
	if a != nil && w.step.Extra != "" && w.refuses(a) {
		w.stumble("scope-refused", "GET %s with scope %q: %d %s", w.server.Authorization, q.Get("scope"), a.status,
			a.header.Get("Location"))
		q.Set("scope", usual)
		a = w.visit(ctx, link, q)
	}
	if a == nil {
		return
	}
	if w.refuses(a) {
		w.stumble("authorize-refused", "GET %s with scope %q: %d %s %s", w.server.Authorization, q.Get("scope"),
			a.status, a.header.Get("Location"), w.short(a))
		return
	}
	w.secrets = append(w.secrets, w.verifier)
	back, err := w.Consent(ctx, link.String(), w.redirect)
	if err != nil || back == "" {
		w.skip("GET %s: %d; nobody opened the link: token, refresh and calls were not tried", w.server.Authorization,
			a.status)
		return
	}
	w.callback(back, state)
}

// visit opens the link as a browser that has no cookie yet.
func (w *Walk) visit(ctx context.Context, link *url.URL, q url.Values) *answer {
	link.RawQuery = q.Encode()
	return w.send(ctx, "GET", link.String(), nil, map[string]string{"Accept": "text/html", "User-Agent": "Mozilla/5.0"})
}

// refuses reports whether the answer ends the request before anybody agreed.
func (w *Walk) refuses(a *answer) bool {
	where := a.header.Get("Location")
	return a.status >= 400 || strings.Contains(where, "error=") && strings.HasPrefix(where, w.redirect)
}

// scope is what the client asks for: what the challenge names, or everything that
// the issuer advertises; offline_access where the issuer has it.
func (w *Walk) scope() string {
	var scopes []string
	if s := parameter(w.challenge, "scope"); s != "" && w.step.Scope != "none" {
		scopes = strings.Fields(s)
	} else if w.step.Scope == "advertised" {
		scopes = slices.Clone(w.server.Scopes)
	}
	if w.step.Scope == "advertised" && slices.Contains(w.server.Scopes, "offline_access") && !slices.Contains(scopes,
		"offline_access") {
		scopes = append(scopes, "offline_access")
	}
	return strings.Join(scopes, " ")
}

// callback reads the answer as the client does.
func (w *Walk) callback(back, state string) {
	u, err := url.Parse(strings.TrimSpace(back))
	if err != nil || !strings.HasPrefix(back, w.redirect) {
		w.stumble("callback-elsewhere", "the browser was sent to %s://%s, not to %s", schemeOf(u), hostOf(u),
			w.redirect)
		return
	}
	q := u.Query()
	w.code = q.Get("code")
	w.secrets = append(w.secrets, w.code)
	switch iss := q.Get("iss"); {
	case q.Get("state") != state:
		w.stumble("state-lost", "state is not the one that was sent")
	case iss == "" && w.server.SendsIssuer && w.step.NeedsIssuer:
		w.stumble("iss-missing", "authorization_response_iss_parameter_supported is true, and the answer has no iss")
	case iss != "" && iss != w.server.Issuer:
		w.stumble("iss-differs", "iss is %s", differs(iss, w.server.Issuer))
	case q.Get("error") != "":
		w.stumble("consent-refused", "error %s: %s", q.Get("error"), q.Get("error_description"))
	case w.code == "":
		w.stumble("consent-refused", "there is no code")
	default:
		w.ok("the browser came back to %s with a code", w.redirect)
	}
}

func schemeOf(u *url.URL) string {
	if u == nil {
		return "?"
	}
	return u.Scheme
}

func hostOf(u *url.URL) string {
	if u == nil {
		return "?"
	}
	return u.Host
}

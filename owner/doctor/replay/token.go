package replay

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
)

// tokens is the answer of a token endpoint (RFC 6749, section 5).
type tokens struct {
	Access      string `json:"access_token"`
	Refresh     string `json:"refresh_token"`
	Type        string `json:"token_type"`
	Expires     any    `json:"expires_in"`
	Error       string `json:"error"`
	Description string `json:"error_description"`
}

// exchange turns the code into tokens.
func (w *Walk) exchange(ctx context.Context) {
	form := url.Values{"grant_type": {"authorization_code"}, "code": {w.code}, "redirect_uri": {w.redirect},
		"code_verifier": {w.verifier}}
	got := w.ask(ctx, form, "token-refused")
	if got == nil {
		return
	}
	w.token = *got
	if got.Refresh == "" {
		w.stumble("no-refresh-token", "POST %s: a token without refresh_token", w.server.Token)
		return
	}
	w.ok("POST %s: an access token for %v s, and a refresh token", w.server.Token, got.Expires)
}

// ask sends a form to the token endpoint. Where that fails it stumbles over
// refused, or over what is no answer at all.
func (w *Walk) ask(ctx context.Context, form url.Values, refused string) *tokens {
	form.Set("client_id", w.client)
	if w.step.Resource {
		form.Set("resource", w.resource.Resource)
	}
	a := w.send(ctx, "POST", w.server.Token, []byte(form.Encode()),
		map[string]string{"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"})
	if a == nil {
		return nil
	}
	got := &tokens{}
	isJSON := a.document(got)
	w.secrets = append(w.secrets, got.Access, got.Refresh)
	switch {
	case a.status >= 300 && a.status < 400:
		w.stumble("token-redirects", "%s: %d to %s", a.what, a.status, a.header.Get("Location"))
	case !isJSON:
		w.stumble("token-not-json", "%s: %d %s %s", a.what, a.status, a.header.Get("Content-Type"), a.short())
	case a.status != 200 || got.Access == "" || !strings.EqualFold(got.Type, "bearer"):
		w.stumble(refused, "%s: %d, error %q %s, token_type %q", a.what, a.status, got.Error, got.Description, got.Type)
	default:
		return got
	}
	return nil
}

// refresh asks for new tokens, once or several times with the same refresh
// token: clients that run in several places do, or have lost an answer.
func (w *Walk) refresh(ctx context.Context) {
	if w.token.Refresh == "" {
		w.skip("there is no refresh token to try")
		return
	}
	form := func() url.Values {
		return url.Values{"grant_type": {"refresh_token"}, "refresh_token": {w.token.Refresh}}
	}
	got := w.ask(ctx, form(), "refresh-refused")
	for n := 1; got != nil && n < w.step.Repeat; n++ {
		if w.ask(ctx, form(), "refresh-replayed") == nil {
			return
		}
	}
	if got == nil {
		return
	}
	w.token.Access = got.Access
	if got.Refresh != "" {
		w.token.Refresh = got.Refresh
	}
	w.ok("POST %s: new tokens, the same refresh token sent %d times", w.server.Token, max(w.step.Repeat, 1))
}

// revoke gives back what the walk was given (RFC 7009), where the issuer can.
func (w *Walk) revoke(ctx context.Context) {
	if w.token.Refresh == "" || w.server.Revocation == "" {
		return
	}
	form := url.Values{"token": {w.token.Refresh}, "token_type_hint": {"refresh_token"}, "client_id": {w.client}}
	w.step = Step{Do: "revoke", Source: "RFC 7009"}
	if a := w.send(ctx, "POST", w.server.Revocation, []byte(form.Encode()),
		map[string]string{"Content-Type": "application/x-www-form-urlencoded"}); a != nil {
		w.ok("POST %s: %d; what this walk was granted is given back", w.server.Revocation, a.status)
	}
}

// claimsOf shows who a JWT is for, unverified; nothing of another token.
func claimsOf(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "the access token is no JWT, which the plugin cannot check"
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Issuer   any `json:"iss"`
		Audience any `json:"aud"`
		Subject  any `json:"sub"`
	}
	if err != nil || json.Unmarshal(raw, &claims) != nil {
		return "the access token cannot be read"
	}
	shown, _ := json.Marshal(map[string]any{"iss": claims.Issuer, "aud": claims.Audience, "sub": claims.Subject})
	return "the access token says " + string(shown)
}

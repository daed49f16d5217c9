package replay

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
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
	a, err := w.post(ctx, w.server.Token, form)
	if err != nil {
		w.stumble("unreachable", "POST %s: %v", w.server.Token, err)
		return nil
	}
	return w.read(a, refused)
}

// post sends a form as the client does: with its id, or signed. It may be called at
// the same time.
func (w *Walk) post(ctx context.Context, to string, form url.Values) (*answer, error) {
	form.Set("client_id", w.client)
	if w.step.Resource {
		form.Set("resource", w.resource.Resource)
	}
	if w.signs {
		proof, err := w.Sign(map[string]any{"iss": w.client, "sub": w.client, "aud": w.server.Token,
			"jti": rand.Text(), "exp": time.Now().Add(time.Minute).Unix()})
		if err != nil {
			return nil, err
		}
		form.Set("client_assertion", proof)
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
	}
	return w.try(ctx, "POST", to, []byte(form.Encode()),
		map[string]string{"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"})
}

// read takes the tokens out of an answer.
func (w *Walk) read(a *answer, refused string) *tokens {
	got := &tokens{}
	isJSON := a.document(got)
	w.secrets = append(w.secrets, got.Access, got.Refresh)
	switch {
	case a.status >= 300 && a.status < 400:
		w.stumble("token-redirects", "%s: %d to %s", a.what, a.status, a.header.Get("Location"))
	case !isJSON && a.status < 300: // it may hold tokens that nobody can tell from the rest
		w.stumble("token-not-json", "%s: %d %s, %d bytes", a.what, a.status, a.header.Get("Content-Type"), len(a.body))
	case !isJSON:
		w.stumble("token-not-json", "%s: %d %s %s", a.what, a.status, a.header.Get("Content-Type"), w.short(a))
	case a.status != 200 || got.Access == "" || !strings.EqualFold(got.Type, "bearer"):
		w.stumble(refused, "%s: %d, error %q %s, token_type %q", a.what, a.status, got.Error, got.Description, got.Type)
	default:
		return got
	}
	return nil
}

// refresh asks for new tokens, once or several times with the same refresh token:
// together, as a client that runs in several places does, or one after the other, as
// one does that lost an answer. The last answer is the one that counts.
func (w *Walk) refresh(ctx context.Context) {
	if w.token.Refresh == "" {
		w.skip("there is no refresh token to try")
		return
	}
	answers, err := w.refreshes(ctx, max(w.step.Repeat, 1))
	if err != nil {
		w.stumble("unreachable", "POST %s: %v", w.server.Token, err)
		return
	}
	if w.step.Together { // one that was answered is the first, whatever its number
		slices.SortStableFunc(answers, func(a, b *answer) int { return a.status - b.status })
	}
	for i, a := range answers {
		got := w.read(a, map[bool]string{true: "refresh-refused", false: "refresh-replayed"}[i == 0])
		if got == nil {
			return
		}
		w.token.Access, w.token.Refresh = got.Access, cmp.Or(got.Refresh, w.token.Refresh)
	}
	how := map[bool]string{true: "at once", false: "one after the other"}[w.step.Together]
	w.ok("POST %s: new tokens, the same refresh token sent %d times, %s", w.server.Token, len(answers), how)
}

// refreshes sends the refresh token n times.
func (w *Walk) refreshes(ctx context.Context, n int) ([]*answer, error) {
	answers, errs := make([]*answer, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {w.token.Refresh}}
		send := func() { answers[i], errs[i] = w.post(ctx, w.server.Token, form) }
		if w.step.Together {
			all.Go(send)
		} else {
			send()
		}
	}
	all.Wait()
	return answers, errors.Join(errs...)
}

// revoke gives back what the walk was given (RFC 7009), where the issuer can.
func (w *Walk) revoke(ctx context.Context) {
	if w.token.Refresh == "" || w.server.Revocation == "" {
		return
	}
	w.step = Step{Do: "revoke", Source: "RFC 7009"}
	form := url.Values{"token": {w.token.Refresh}, "token_type_hint": {"refresh_token"}}
	a, err := w.post(ctx, w.server.Revocation, form)
	if err != nil {
		w.stumble("unreachable", "POST %s: %v", w.server.Revocation, err)
		return
	}
	w.ok("POST %s: %d; what this walk was granted is given back", w.server.Revocation, a.status)
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

package replay

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
)

// register gets a client id: the address of the client's metadata document where
// the issuer takes those (and the method that the document has), else by dynamic
// registration (RFC 7591).
func (w *Walk) register(ctx context.Context) {
	takes := w.server.Documents && slices.Contains(w.server.Methods, "none")
	if w.step.Assertion && w.server.Documents && !slices.Contains(w.server.Methods, "private_key_jwt") {
		w.stumble("assertion-only", "token_endpoint_auth_methods_supported is %q", w.server.Methods)
	}
	switch {
	case w.step.Document != "" && takes && (!w.step.Assertion || w.Sign != nil):
		w.client, w.signs = w.step.Document, w.step.Assertion
		w.ok("by the client's metadata document %s", w.client)
	case w.server.Registration != "":
		for range max(w.step.Times, 1) {
			if !w.registerOnce(ctx) {
				return
			}
		}
		w.ok("POST %s: 201, %d times", w.server.Registration, max(w.step.Times, 1))
	case w.step.Assertion && w.server.Documents:
		w.skip("the issuer takes metadata documents, which only the client itself can sign for: from here on " +
			"nothing was tried")
	default:
		w.stumble("no-registration", "client_id_metadata_document_supported is %v, "+
			"token_endpoint_auth_methods_supported %q, no registration_endpoint",
			w.server.Documents, w.server.Methods)
	}
}

func (w *Walk) registerOnce(ctx context.Context) bool {
	body := maps.Clone(w.step.Body)
	uris := slices.Clone(w.seq.Redirects)
	uris[0] = w.redirect
	body["redirect_uris"] = uris
	raw, _ := json.Marshal(body)
	a := w.send(ctx, "POST", w.server.Registration, raw, map[string]string{"Content-Type": "application/json",
		"Accept": "application/json"})
	if a == nil {
		return false
	}
	var got map[string]any
	isJSON := a.document(&got)
	for _, name := range []string{"client_secret", "registration_access_token"} { // unasked
		secret, _ := got[name].(string)
		w.secrets = append(w.secrets, secret)
	}
	switch {
	case a.status == 429:
		w.stumble("registration-limited", "%s: 429, Retry-After %q", a.what, a.header.Get("Retry-After"))
	case a.status != 201 && a.status != 200:
		w.stumble("registration-refused", "%s with %s: %d %s", a.what, raw, a.status, w.short(a))
	case !isJSON:
		w.stumble("not-json", "%s: %s", a.what, w.short(a))
	case w.step.NoNulls && slices.Contains(slices.Collect(maps.Values(got)), any(nil)):
		w.stumble("registration-null", "%s: %s", a.what, w.short(a))
	default:
		w.client, _ = got["client_id"].(string)
		return w.registered(a, got, uris)
	}
	return false
}

// registered checks that the redirect URIs, or the one that is used, were taken.
func (w *Walk) registered(a *answer, got map[string]any, uris []string) bool {
	taken, _ := got["redirect_uris"].([]any)
	if !w.step.AllOrNone {
		uris = uris[:1]
	}
	for _, uri := range uris {
		if taken != nil && !slices.Contains(taken, any(uri)) {
			w.stumble("redirect-dropped", "%s: redirect_uris lacks %s", a.what, uri)
			return false
		}
	}
	if w.client == "" {
		w.stumble("registration-refused", "%s: there is no client_id: %s", a.what, w.short(a))
	}
	return w.client != ""
}

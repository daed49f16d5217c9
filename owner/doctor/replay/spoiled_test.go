package replay

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

func set(name string, value any) func(map[string]any) {
	return func(doc map[string]any) {
		doc[name] = value
		if value == nil {
			delete(doc, name)
		}
	}
}

const (
	resourceAt = "/.well-known/oauth-protected-resource" + mcpPath
	serverAt   = "/.well-known/oauth-authorization-server/as"
)

// at answers requests to a path, from the nth on.
func at(path string, n int, serve func(http.ResponseWriter, *http.Request)) func(*world) {
	return func(w *world) {
		left := n
		w.spoil = func(rw http.ResponseWriter, r *http.Request, _ []byte) bool {
			if r.URL.Path != path {
				return false
			}
			if left--; left > 0 {
				return false
			}
			serve(rw, r)
			return true
		}
	}
}

func edit(path string, change func(map[string]any)) func(*world) {
	return func(w *world) { w.edit[path] = change }
}

func status(code int, header ...string) func(http.ResponseWriter, *http.Request) {
	return func(rw http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			rw.Header().Set(header[i], header[i+1])
		}
		http.Error(rw, "<html>no</html>", code)
	}
}

// callback changes what the browser brings back.
func callback(change func(u *url.URL, q url.Values)) func(w *world) func(context.Context, string, string) (string,
	error) {
	return func(w *world) func(context.Context, string, string) (string, error) {
		return func(ctx context.Context, link, redirect string) (string, error) {
			back, err := w.agree(ctx, link, redirect)
			u, _ := url.Parse(back)
			q := u.Query()
			change(u, q)
			u.RawQuery = q.Encode()
			return u.String(), err
		}
	}
}

var spoiled = []struct {
	want, client string
	spoil        func(*world)
	consent      func(*world) func(context.Context, string, string) (string, error)
}{
	{want: "unreachable", client: "cursor", spoil: func(w *world) { w.Close() }},
	{want: "not-public", client: "claude", spoil: func(*world) {}},
	{want: "open", client: "cursor", spoil: at(mcpPath, 0, status(200))},
	{want: "redirected", client: "cursor", spoil: at(mcpPath, 0, status(307, "Location", "/mcp/x/mcp/"))},
	{want: "not-401", client: "cursor", spoil: at(mcpPath, 0, status(404))},
	{want: "no-challenge", client: "claude", spoil: at(mcpPath, 0, status(401))},
	{want: "no-challenge", client: "claude", spoil: at(mcpPath, 0, status(401, "WWW-Authenticate", "Basic realm=x"))},
	{want: "no-metadata-link", client: "claude", spoil: at(mcpPath, 0, status(401, "WWW-Authenticate", "Bearer"))},
	{want: "no-resource-metadata", client: "chatgpt", spoil: at(resourceAt, 0, status(404))},
	{want: "not-json", client: "gemini", spoil: at(resourceAt, 0, status(200))},
	{want: "not-json", client: "gemini", spoil: at(serverAt, 0, status(200))},
	{want: "resource-differs", client: "gemini", spoil: edit(resourceAt, set("resource", "https://n.example/mcp"))},
	{want: "resource-differs", client: "cursor", spoil: edit(resourceAt, set("resource",
		"https://n.example/mcp/x/mcp"))},
	{want: "no-server", client: "gemini", spoil: edit(resourceAt, set("authorization_servers", nil))},
	{want: "no-server-metadata", client: "gemini", spoil: at(serverAt, 0, status(404))},
	{want: "first-place-only", client: "claude", spoil: func(w *world) {
		w.spoil = func(rw http.ResponseWriter, r *http.Request, _ []byte) bool {
			if r.URL.Path == serverAt {
				http.NotFound(rw, r)
				return true
			}
			if r.URL.Path == "/as/.well-known/openid-configuration" {
				r.URL.Path = serverAt
			}
			return false
		}
	}},
	{want: "issuer-differs", client: "claude", spoil: edit(serverAt,
		func(d map[string]any) { d["issuer"] = d["issuer"].(string) + "/" })},
	{want: "no-endpoints", client: "cursor", spoil: edit(serverAt, set("token_endpoint", nil))},
	{want: "no-s256", client: "cursor", spoil: edit(serverAt, set("code_challenge_methods_supported",
		[]string{"plain"}))},
	{want: "no-registration", client: "gemini", spoil: edit(serverAt, set("registration_endpoint", nil))},
	{want: "no-registration", client: "claude", spoil: edit(serverAt, func(d map[string]any) {
		delete(d, "registration_endpoint")
		d["token_endpoint_auth_methods_supported"] = []string{"private_key_jwt"}
	})},
	{want: "registration-limited", client: "claude", spoil: func(w *world) {
		w.edit[serverAt] = set("client_id_metadata_document_supported", false)
		at("/as/register", 2, status(429, "Retry-After", "60"))(w)
	}},
	{want: "registration-refused", client: "cursor", spoil: at("/as/register", 0, status(400))},
	{want: "registration-refused", client: "cursor", spoil: edit("/as/register", set("client_id", nil))},
	{want: "registration-null", client: "claude", spoil: func(w *world) {
		w.edit[serverAt] = set("client_id_metadata_document_supported", false)
		w.edit["/as/register"] = func(d map[string]any) { d["client_uri"] = nil }
	}},
	{want: "redirect-dropped", client: "cursor", spoil: edit("/as/register", set("redirect_uris",
		[]string{"http://localhost:8787/callback"}))},
	{want: "assertion-only", client: "chatgpt", spoil: edit(serverAt, set("token_endpoint_auth_methods_supported",
		[]string{"none"}))},
	{want: "authorize-refused", client: "cursor", spoil: at("/as/authorize", 0, status(400))},
	{want: "authorize-refused", client: "cursor", spoil: at("/as/authorize", 0, func(rw http.ResponseWriter,
		r *http.Request) {
		http.Redirect(rw, r, r.URL.Query().Get("redirect_uri")+"?error=invalid_scope", 302)
	})},
	{want: "scope-refused", client: "chatgpt", spoil: func(w *world) {
		w.spoil = func(rw http.ResponseWriter, r *http.Request, _ []byte) bool {
			unknown := r.URL.Path == "/as/authorize" && strings.Contains(r.URL.Query().Get("scope"), "openid")
			if unknown {
				http.Redirect(rw, r, r.URL.Query().Get("redirect_uri")+"?error=invalid_scope", 302)
			}
			return unknown
		}
	}},
	{want: "consent-refused", client: "cursor", consent: callback(func(_ *url.URL,
		q url.Values) {
		q.Del("code")
		q.Set("error", "access_denied")
	})},
	{want: "callback-elsewhere", client: "cursor", consent: callback(func(u *url.URL,
		_ url.Values) {
		u.Host = "evil.example"
	})},
	{want: "state-lost", client: "cursor", consent: callback(func(_ *url.URL, q url.Values) { q.Del("state") })},
	{want: "iss-missing", client: "claude-code", consent: callback(func(_ *url.URL, q url.Values) { q.Del("iss") })},
	{want: "iss-differs", client: "claude-code", consent: callback(func(_ *url.URL, q url.Values) {
		q.Set("iss",
			q.Get("iss")+"/")
	})},
	{want: "token-redirects", client: "cursor", spoil: at("/as/token", 0, status(308, "Location", "/as/token/"))},
	{want: "token-not-json", client: "cursor", spoil: at("/as/token", 0, status(500))},
	{want: "token-refused", client: "cursor", spoil: edit("/as/token", set("token_type", "DPoP"))},
	{want: "no-refresh-token", client: "cursor", spoil: edit("/as/token", set("refresh_token", nil))},
	{want: "authorized-then-401", client: "cursor", spoil: at(mcpPath, 2, status(401))},
	{want: "forbidden", client: "cursor", spoil: at(mcpPath, 2, status(403))},
	{want: "call-failed", client: "cursor", spoil: at(mcpPath, 3, status(500))},
	{want: "refresh-refused", client: "cursor", spoil: func(w *world) { delete(w.refresh, "r0") }},
	{want: "refresh-replayed", client: "claude", spoil: at("/as/token", 3, func(rw http.ResponseWriter,
		_ *http.Request) {
		rw.WriteHeader(400)
		_, _ = rw.Write([]byte(`{"error":"invalid_grant"}`))
	})},
}

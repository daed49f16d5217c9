package replay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// world is a server with its issuer, both right; a test spoils one answer.
type world struct {
	*httptest.Server
	mu       sync.Mutex
	spoil    func(w http.ResponseWriter, r *http.Request, body []byte) bool // answers itself, or not
	edit     map[string]func(map[string]any)                                // of a JSON answer, by path
	codes    map[string]url.Values
	clients  map[string][]any
	refresh  map[string]bool
	verified int
	revoked  int
}

const mcpPath = "/mcp/x/mcp"

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{edit: map[string]func(map[string]any){}, codes: map[string]url.Values{}, clients: map[string][]any{},
		refresh: map[string]bool{"r0": true}}
	w.Server = httptest.NewServer(w)
	t.Cleanup(w.Close)
	return w
}

func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.spoil != nil && w.spoil(rw, r, body) {
		return
	}
	issuer := w.URL + "/as"
	switch r.URL.Path {
	case mcpPath:
		w.mcp(rw, r, body)
	case "/.well-known/oauth-protected-resource" + mcpPath:
		w.reply(rw, r, 200, map[string]any{"resource": w.URL + mcpPath, "authorization_servers": []string{issuer}})
	case "/.well-known/oauth-authorization-server/as":
		w.reply(rw, r, 200, map[string]any{"issuer": issuer, "authorization_endpoint": issuer + "/authorize",
			"token_endpoint":        issuer + "/token",
			"registration_endpoint": issuer + "/register", "revocation_endpoint": issuer + "/revoke",
			"code_challenge_methods_supported":      []string{"S256"},
			"token_endpoint_auth_methods_supported": []string{"none", "private_key_jwt"},
			"scopes_supported":                      []string{"mcp", "offline_access"},
			"client_id_metadata_document_supported": true, "authorization_response_iss_parameter_supported": true})
	case "/as/register":
		got := map[string]any{}
		json.Unmarshal(body, &got)
		got["client_id"] = fmt.Sprint("client-", len(w.clients))
		w.clients[got["client_id"].(string)], _ = got["redirect_uris"].([]any)
		w.reply(rw, r, 201, got)
	case "/as/authorize":
		io.WriteString(rw, "<html>agree?</html>")
	case "/as/token":
		form, _ := url.ParseQuery(string(body))
		w.tokens(rw, r, form)
	case "/as/revoke":
		w.revoked++
	default:
		http.NotFound(rw, r)
	}
}

func (w *world) reply(rw http.ResponseWriter, r *http.Request, status int, doc map[string]any) {
	if edit := w.edit[r.URL.Path]; edit != nil {
		edit(doc)
	}
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	json.NewEncoder(rw).Encode(doc)
}

func (w *world) mcp(rw http.ResponseWriter, r *http.Request, body []byte) {
	if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer a.") {
		rw.Header().Set("WWW-Authenticate",
			`Bearer resource_metadata="`+w.URL+`/.well-known/oauth-protected-resource`+mcpPath+`", scope="mcp"`)
		http.Error(rw, "log in", 401)
		return
	}
	rw.Header().Set("Mcp-Session-Id", "s1")
	switch {
	case r.Method == "DELETE":
	case bytes.Contains(body, []byte("notifications/")):
		rw.WriteHeader(202)
	case bytes.Contains(body, []byte("tools/list")):
		rw.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(rw, "event: message\ndata: "+
			"{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"tools\":[{\"name\":\"a\"}]}}\n\n")
	default:
		io.WriteString(rw, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	}
}

func (w *world) tokens(rw http.ResponseWriter, r *http.Request, form url.Values) {
	good := map[string]any{"access_token": "a." + base64.RawURLEncoding.EncodeToString([]byte(`{"aud":"x"}`)) + ".c",
		"refresh_token": "r0", "token_type": "Bearer", "expires_in": 300}
	if form.Get("grant_type") == "refresh_token" {
		if !w.refresh[form.Get("refresh_token")] {
			w.reply(rw, r, 400, map[string]any{"error": "invalid_grant"})
			return
		}
		w.reply(rw, r, 200, good)
		return
	}
	asked := w.codes[form.Get("code")]
	sum := sha256.Sum256([]byte(form.Get("code_verifier")))
	if asked == nil || asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) ||
		asked.Get("redirect_uri") != form.Get("redirect_uri") || asked.Get("client_id") != form.Get("client_id") {
		w.reply(rw, r, 400, map[string]any{"error": "invalid_grant"})
		return
	}
	w.verified++
	w.reply(rw, r, 200, good)
}

// agree is the owner's browser.
func (w *world) agree(_ context.Context, link, redirect string) (string, error) {
	u, err := url.Parse(link)
	if err != nil {
		return "", err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	code := fmt.Sprint("code-", len(w.codes))
	w.codes[code] = u.Query()
	return redirect + "?" + url.Values{"code": {code}, "state": {u.Query().Get("state")},
		"iss": {w.URL + "/as"}}.Encode(), nil
}

func (w *world) replay(t *testing.T, client string, consent func(context.Context, string, string) (string,
	error)) []Result {
	t.Helper()
	seq, err := Load(client)
	if err != nil {
		t.Fatal(err)
	}
	seq.Redirects[0] = strings.Replace(seq.Redirects[0], "{port}", "43210", 1)
	u, _ := url.Parse(w.URL + mcpPath)
	walk := &Walk{URL: u, Consent: consent, HTTP: &http.Client{Timeout: time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	return walk.Run(t.Context(), seq)
}

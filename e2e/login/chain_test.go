package login_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// connect is the Go SDK's own way in: 401, metadata, registration, consent, token. It
// returns the session and the client that holds the token.
func connect(t *testing.T, s *stand, endpoint string, ticks ...string) (*mcp.ClientSession, *auth.AuthorizationCodeHandler) {
	t.Helper()
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "Go SDK", RedirectURIs: []string{"http://localhost:1/callback"}, GrantTypes: []string{"authorization_code", "refresh_token"},
		}},
		RedirectURL: "http://localhost:1/callback", RequestRefreshToken: true, Client: insecure(),
		AuthorizationCodeFetcher: func(_ context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			q := s.agree(t, args.URL, ticks...).Query()
			return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	transport := &mcp.StreamableClientTransport{Endpoint: endpoint, HTTPClient: insecure(), OAuthHandler: handler}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session, handler
}

func accessToken(t *testing.T, h *auth.AuthorizationCodeHandler) string {
	t.Helper()
	source, err := h.TokenSource(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	token, err := source.Token()
	if err != nil {
		t.Fatal(err)
	}
	return token.AccessToken
}

func tools(t *testing.T, session *mcp.ClientSession) (names []string) {
	t.Helper()
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	return names
}

// What the owner ticked is what the client has; what he did not, it has not.
func TestTicksDecide(t *testing.T) {
	s := newStand(t, nil)
	if err := os.WriteFile(filepath.Join(s.workspace, "hello.txt"), []byte("hello"), 0o644); err != nil {
		t.Fatal(err)
	}
	session, _ := connect(t, s, s.sandbox, "read_file")
	if got := tools(t, session); !slices.Equal(got, []string{"read_file"}) {
		t.Errorf("ticked read_file, got %v", got)
	}
	if out := rig.Call(t, session, "read_file", rig.Args{"path": "hello.txt"}); out["content"] != "hello" {
		t.Errorf("%v", out)
	}
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "run_command", Arguments: rig.Args{"command": "id"}}); err == nil {
		t.Error("a tool that was not ticked ran")
	}
	all, _ := connect(t, s, s.sandbox, "read_file", "run_command", "write_file")
	if got := tools(t, all); len(got) != 3 {
		t.Errorf("the twin: %v", got)
	}
	rig.Call(t, all, "run_command", rig.Args{"command": "true"})
}

// The list of the edge is the ceiling: a client with a token of one URL has nothing at
// another, and a header client sees nothing of OAuth.
func TestOneResource(t *testing.T) {
	s := newStand(t, nil)
	_, handler := connect(t, s, s.sandbox, "read_file")
	token := accessToken(t, handler)
	c := insecure()
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	post := func(at string) (int, http.Header) {
		code, header, _ := send(t, c, "POST", s.origin+at, ping, "Authorization", "Bearer "+token, "Content-Type", "application/json", "Accept", "application/json, text/event-stream")
		return code, header
	}
	if code, header := post("/mcp-oauth/hub/hub/mcp"); code != 401 || !strings.Contains(header.Get("Www-Authenticate"), "/mcp-oauth/hub/hub/mcp") {
		t.Errorf("at the hub: %d %v", code, header)
	}
	if code, _ := post("/mcp-sandbox/mcp"); code != 401 {
		t.Errorf("at the header clients' URL: %d", code)
	}
	if code, _ := post("/mcp-oauth/sandbox/mcp"); code == 401 || code == 403 {
		t.Errorf("the twin: %d", code)
	}
	for at, want := range map[string]int{
		"/.well-known/oauth-protected-resource": 404, "/.well-known/oauth-authorization-server": 404, "/.well-known/oauth-protected-resource/mcp-sandbox/mcp": 404,
		"/.well-known/oauth-authorization-server/mcp-sandbox": 404, "/.well-known/openid-configuration": 404, "/healthz": 404,
		"/.well-known/oauth-protected-resource/mcp-oauth/sandbox/mcp": 200, "/.well-known/oauth-authorization-server/mcp-login": 200,
		"/.well-known/openid-configuration/mcp-login": 200, "/mcp-login/.well-known/openid-configuration": 200, "/.well-known/oauth-protected-resource/mcp-oauth/hub/hub/mcp": 200,
	} {
		if code, _, body := send(t, c, "GET", s.origin+at, ""); code != want {
			t.Errorf("%s: %d %s", at, code, body)
		}
	}
	var resource struct {
		Resource string
		Servers  []string `json:"authorization_servers"`
	}
	_, _, body := send(t, c, "GET", s.origin+"/.well-known/oauth-protected-resource/mcp-oauth/sandbox/mcp", "")
	if err := json.Unmarshal([]byte(body), &resource); err != nil || resource.Resource != s.sandbox || !slices.Equal(resource.Servers, []string{s.issuer}) {
		t.Errorf("%s %v", body, err)
	}
}

// A revoked grant is refused within one second, and its open stream ends at the next
// write or keep-alive.
func TestRevokedAtOnce(t *testing.T) {
	s := newStand(t, nil)
	_, handler := connect(t, s, s.sandbox, "run_command")
	token := accessToken(t, handler)
	post := func(body string) (int, http.Header) {
		code, header, _ := send(t, insecure(), "POST", s.sandbox, body, "Authorization", "Bearer "+token,
			"Content-Type", "application/json", "Accept", "application/json, text/event-stream")
		return code, header
	}
	code, header := post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	if code != 200 {
		t.Fatalf("the twin: %d", code)
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", s.sandbox, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Mcp-Session-Id", header.Get("Mcp-Session-Id"))
	client := insecure()
	client.Timeout = 0
	stream, err := client.Do(req)
	if err != nil || stream.StatusCode != 200 {
		t.Fatalf("no stream: %v %v", stream, err)
	}
	defer stream.Body.Close()
	ended := make(chan time.Time, 1)
	go func() {
		for lines := bufio.NewScanner(stream.Body); lines.Scan(); {
		}
		ended <- time.Now()
	}()
	list := s.verb(t, "", "grants")
	id, _, _ := strings.Cut(strings.Split(list, "\n")[1], " ")
	s.verb(t, "", "revoke", id)
	begin := time.Now() // after the verb: what it promises begins now
	ping := func() bool { code, _ := post(`{"jsonrpc":"2.0","id":2,"method":"ping"}`); return code == 401 }
	for refused := false; !refused && time.Since(begin) < time.Second; refused = ping() {
	}
	t.Logf("refused, or a second was over, after %v", time.Since(begin))
	// Whatever a busy machine adds comes after the beginning of a request: of those that
	// begin a second later not one may pass.
	time.Sleep(time.Until(begin.Add(time.Second)))
	for range 3 {
		if !ping() {
			t.Errorf("a request that began %v after the revocation passed", time.Since(begin))
		}
	}
	select {
	case at := <-ended:
		t.Logf("the open stream ended after %v", at.Sub(begin))
	case <-time.After(rig.Deadline):
		t.Error("the open stream goes on")
	}
}

// Without LOGIN there is no route.
func TestOff(t *testing.T) {
	c := rig.StartChain(t, rig.ChainOptions{})
	for _, at := range []string{"/mcp-login", "/mcp-login/authorize", "/mcp-oauth/sandbox/mcp", "/mcp-oauth/hub/hub/mcp", "/.well-known/oauth-authorization-server/mcp-login"} {
		if code, _, body := send(t, insecure(), "GET", c.WebSecure+at, ""); code != 404 || strings.Contains(body, "jsonrpc") {
			t.Errorf("%s: %d %s", at, code, body)
		}
	}
}

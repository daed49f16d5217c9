package edge

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// issuing is zitadel's example storage with access tokens that are JWTs for the
// audience that the client asks for, as RFC 8707 has it.
type issuing struct {
	*storage.Storage
	audience string
}

type jwtClient struct{ op.Client }

func (jwtClient) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }

func (s issuing) ClientCredentials(ctx context.Context, id, secret string) (op.Client, error) {
	c, err := s.Storage.ClientCredentials(ctx, id, secret)
	return jwtClient{c}, err
}

func (s issuing) ClientCredentialsTokenRequest(ctx context.Context, id string, scopes []string) (op.TokenRequest, error) {
	return &oidc.JWTTokenRequest{Subject: id, Audience: []string{s.audience}, Scopes: scopes}, nil
}

// newProvider starts a real identity provider.
func newProvider(t *testing.T, audience string) *httptest.Server {
	t.Helper()
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	provider, err := op.NewProvider(&op.Config{CryptoKey: sha256.Sum256([]byte(t.Name()))},
		issuing{storage.NewStorage(storage.NewUserStore(server.URL)), audience}, op.StaticIssuer(server.URL), op.WithAllowInsecure())
	if err != nil {
		t.Fatal(err)
	}
	handler = provider
	return server
}

// issue gets an access token from the provider.
func issue(t *testing.T, provider string) string {
	t.Helper()
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {"openid"}}
	req, err := http.NewRequest("POST", provider+"/oauth/token", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth("sid1", "verysecret")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got struct {
		Token string `json:"access_token"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || strings.Count(got.Token, ".") != 2 {
		t.Fatalf("the provider answers %d, %v, %q", resp.StatusCode, err, got.Token)
	}
	return got.Token
}

const audience = "https://node.example/mcp/mcp"

func TestRealIdentityProvider(t *testing.T) {
	bothProxies(t, func(t *testing.T, fast bool) {
		provider := newProvider(t, audience)
		foreign := newProvider(t, "https://other.example/mcp")
		s := newStand(t, fast)
		_, backendFile := rig.NewToken(t)
		_, clientFile := rig.NewToken(t)
		s.SetDynamic(t, s.dynamic(clientFile, backendFile, fmt.Sprintf(
			"          oauth: {issuer: %q, audience: %q, tools: [read_file], principals: {sid1: [read_file]}}\n", provider.URL, audience)))
		as := func(token, body string) answer {
			return attack{token: "Bearer " + token, body: body, method: "POST"}.request("").http1(t, s.Web)
		}
		// A client without a token is led to the issuer.
		first := attack{token: "-"}.request("").http1(t, s.Web)
		challenge := first.header.Get("WWW-Authenticate")
		metadata := "/.well-known/oauth-protected-resource/mcp/mcp"
		if first.status != 401 || !strings.Contains(challenge, `resource_metadata="https://node.example`+metadata+`"`) {
			t.Fatalf("without a token: %d, %s", first.status, challenge)
		}
		var doc struct {
			Resource string   `json:"resource"`
			Servers  []string `json:"authorization_servers"`
		}
		a := wire{method: "GET", target: metadata}.http1(t, s.Web)
		if err := json.Unmarshal([]byte(a.body), &doc); err != nil || doc.Resource != audience || len(doc.Servers) != 1 || doc.Servers[0] != provider.URL {
			t.Fatalf("metadata: %d %s", a.status, a.body)
		}
		token := issue(t, doc.Servers[0])
		if a := as(token, readFile); a.status != 200 {
			t.Fatalf("with a token of the issuer: %d %s", a.status, a.body)
		}
		seen := s.backend.take()
		if len(seen) != 1 || seen[0].header.Get("X-Sallyport-Principal") != "oauth:sid1" || strings.Contains(fmt.Sprint(seen[0].header), token) {
			t.Errorf("the backend sees %v", seen)
		}
		if a := as(token, tool("rm_all")); a.status != 403 || !strings.Contains(a.body, "oauth:sid1") {
			t.Errorf("a tool that is not granted: %d %s", a.status, a.body)
		}
		for what, bad := range map[string]string{
			"another audience": issue(t, foreign.URL), "a changed token": token[:len(token)-8] + "AAAAAAAA",
			"a part of it": token[:strings.LastIndex(token, ".")],
		} {
			if a := as(bad, readFile); a.status != 401 || !strings.Contains(a.header.Get("WWW-Authenticate"), `error="invalid_token"`) {
				t.Errorf("%s: %d %s", what, a.status, a.header.Get("WWW-Authenticate"))
			}
		}
		// The issuer is gone: its keys are known, and the token still passes.
		provider.Close()
		s.SetDynamic(t, s.dynamic(clientFile, backendFile, fmt.Sprintf(
			"          oauth: {issuer: %q, audience: %q, tools: [read_file, other], principals: {sid1: [read_file, other]}}\n", provider.URL, audience)))
		if a := as(token, readFile); a.status != 200 {
			t.Errorf("with the issuer down and after a reload: %d %s", a.status, a.body)
		}
		if strings.Contains(s.Log.String(), token) {
			t.Error("the log has the token")
		}
	})
}

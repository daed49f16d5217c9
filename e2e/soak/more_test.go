package soak

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// toServer is the way to a server of the hub.
func (w *world) toServer(name string, how rig.Transport) way {
	return way{w.chain.WebSecure + "/mcp-hub/servers/" + name, w.chain.Token, how, []*part{w.traefik, w.hub, w.upstream}}
}

// echoed is a call of a server of the hub whose answer nobody else gets.
func (w *world) echoed() (*mcp.CallToolParams, func(*mcp.CallToolResult) string) {
	id := rand.Text()
	return &mcp.CallToolParams{Name: "echo", Arguments: rig.Args{"name": id}}, func(r *mcp.CallToolResult) string {
		if rig.Text(r) != id {
			return "not this call's answer"
		}
		w.count("calls of the hub's servers answered")
		return ""
	}
}

// fetches asks the host that commands may reach and the one that they may not, in turns.
func (w *world) fetches() call {
	n := 0
	return func() (*mcp.CallToolParams, func(*mcp.CallToolResult) string) {
		n++
		id, host := rand.Text(), map[bool]string{true: "y.example", false: "x.example"}[n%2 == 0]
		line := fmt.Sprintf("curl -sS --max-time 30 --cacert ca.pem https://%s/%s", host, id)
		return &mcp.CallToolParams{Name: "run_command", Arguments: rig.Args{"command": line, "timeout_seconds": 40}}, func(r *mcp.CallToolResult) string {
			content, _ := r.StructuredContent.(rig.Args)
			allowed := content["stdout"] == fmt.Sprintf("this is %s/%s", host, id)
			switch {
			case host == "y.example" && content["exit_code"] == 56.0 && content["stdout"] == "": // curl(1): the proxy refused
				w.count("connections that egress refused")
			case host == "x.example" && allowed:
				w.count("connections through egress")
			default:
				return "not what the list says"
			}
			w.count("calls begun")
			return ""
		}
	}
}

const (
	loggedIn = "logins, each with a list of tools and a revocation"
	password = "correct horse battery staple"
	formType = "application/x-www-form-urlencoded"
)

var (
	hidden  = regexp.MustCompile(`type="hidden" name="([a-z]+)" value="([^"]*)"`)
	refresh = regexp.MustCompile(`http-equiv="refresh" content="0;url=([^"]*)"`)
)

// logins registers, logs in, agrees, calls a tool with the token, revokes the grant
// and sees the token refused, again and again.
func (w *world) logins(ctx context.Context) {
	y := way{parts: []*part{w.traefik, w.sandbox, w.login}}
	for ctx.Err() == nil {
		since, _ := y.now()
		if err := w.loginOnce(); err != nil {
			w.failed(y, since, "a login", err)
			pause(ctx, 100*time.Millisecond)
			continue
		}
		w.count(loggedIn)
		pause(ctx, 500*time.Millisecond)
	}
}

func (w *world) loginOnce() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "soak", RedirectURIs: []string{"http://localhost:1/callback"}, GrantTypes: []string{"authorization_code", "refresh_token"},
		}},
		RedirectURL: "http://localhost:1/callback", RequestRefreshToken: true, Client: browser(),
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			to, err := w.agree(ctx, args.URL)
			if err != nil {
				return nil, err
			}
			q := to.Query()
			return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
		},
	})
	if err != nil {
		return err
	}
	transport := &mcp.StreamableClientTransport{Endpoint: w.origin + "/mcp-oauth/sandbox/mcp", HTTPClient: browser(), OAuthHandler: handler}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "soak", Version: "1"}, nil).Connect(ctx, transport, nil)
	if err != nil {
		return err
	}
	defer session.Close()
	list, err := session.ListTools(ctx, nil)
	if err != nil || len(list.Tools) != 1 || list.Tools[0].Name != "read_file" {
		return fmt.Errorf("with read_file ticked: %+v %w", list, err)
	}
	source, err := handler.TokenSource(ctx)
	if err != nil {
		return err
	}
	token, err := source.Token()
	if err != nil {
		return err
	}
	return w.revoke(ctx, token.AccessToken)
}

// revoke ends all grants and waits until the token is refused.
func (w *world) revoke(ctx context.Context, token string) error {
	if code := w.statusAt(w.origin+"/mcp-oauth/sandbox/mcp", token); code == 401 {
		return fmt.Errorf("a token that was not revoked: status %d", code)
	}
	out, err := w.verb(w.login, "", "grants")
	if err != nil {
		return fmt.Errorf("grants: %w %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for _, line := range lines[1:] {
		id, _, _ := strings.Cut(line, " ")
		if out, err := w.verb(w.login, "", "revoke", id); err != nil {
			return fmt.Errorf("revoke %s: %w %s", id, err, out)
		}
	}
	for ; ctx.Err() == nil; pause(ctx, 50*time.Millisecond) {
		if w.statusAt(w.origin+"/mcp-oauth/sandbox/mcp", token) == 401 {
			return nil
		}
	}
	return fmt.Errorf("a revoked token is still taken: %w", ctx.Err())
}

// browser trusts Traefik's own certificate and follows no redirect.
func browser() *http.Client {
	jar, _ := cookiejar.New(nil) // without options there is no error
	return &http.Client{Jar: jar, Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// agree plays the owner: signs in, ticks read_file, allows, and says where the browser lands.
func (w *world) agree(ctx context.Context, authorize string) (*url.URL, error) {
	c := browser()
	send := func(method, to, body string) (int, string, error) {
		req, err := http.NewRequestWithContext(ctx, method, to, strings.NewReader(body))
		if err != nil {
			return 0, "", err
		}
		if body != "" {
			req.Header.Set("Content-Type", formType)
		}
		resp, err := c.Do(req)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(raw), err
	}
	code, page, err := send("POST", w.origin+"/mcp-login/sign-in", url.Values{"password": {password}}.Encode())
	if err != nil || code != 303 {
		return nil, fmt.Errorf("signing in: %d %.200s %w", code, page, err)
	}
	if code, page, err = send("GET", authorize, ""); err != nil || code != 200 {
		return nil, fmt.Errorf("consent: %d %.200s %w", code, page, err)
	}
	f := url.Values{"tools": {"read_file"}, "days": {"30"}, "decision": {"allow"}}
	for _, m := range hidden.FindAllStringSubmatch(page, -1) {
		f.Set(m[1], html.UnescapeString(m[2]))
	}
	if _, page, err = send("POST", w.origin+"/mcp-login/consent", f.Encode()); err != nil {
		return nil, err
	}
	m := refresh.FindStringSubmatch(page)
	if m == nil {
		return nil, fmt.Errorf("the page after consent leads nowhere: %.200s", page)
	}
	return url.Parse(html.UnescapeString(m[1]))
}

package attack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// answerBound is how long one attempt may take.
const answerBound = 90 * time.Second

func loopback(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// bearer adds the token to what goes to the origin that the owner named, and
// sends nothing elsewhere.
type bearer struct {
	base  *url.URL
	token string
	next  http.RoundTripper
}

// RoundTrip sends req with the token.
func (b bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != b.base.Scheme || req.URL.Host != b.base.Host {
		return nil, errors.New("the server sends clients to another origin")
	}
	req = req.Clone(req.Context())
	if b.token != "" {
		req.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.next.RoundTrip(req)
}

func (r *report) client(token string) *http.Client {
	next := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: r.opt.insecure || loopback(r.opt.base)}}
	return &http.Client{Transport: bearer{r.opt.base, token, next}}
}

// tools is a session with the sandbox.
type tools struct{ session *mcp.ClientSession }

func (r *report) connect(ctx context.Context) (tools, error) {
	token, err := r.token()
	if err != nil {
		return tools{}, err
	}
	transport := &mcp.StreamableClientTransport{Endpoint: r.opt.base.JoinPath("mcp").String(), HTTPClient: r.client(token), MaxRetries: -1}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "sallyport-attack", Version: "1"}, nil).Connect(ctx, transport, nil)
	if err != nil {
		return tools{}, fmt.Errorf("%s: %w", r.opt.base, err)
	}
	return tools{s}, nil
}

// call returns what a tool says, and whether it took the call as good.
func (t tools) call(ctx context.Context, name string, args map[string]any) (text string, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerBound)
	defer cancel()
	res, err := t.session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		return "", false, err
	}
	var b strings.Builder
	for _, c := range res.Content {
		if c, ok := c.(*mcp.TextContent); ok {
			b.WriteString(c.Text)
		}
	}
	return b.String(), !res.IsError, nil
}

// run returns both streams of a command.
func (t tools) run(ctx context.Context, command string, seconds int) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerBound)
	defer cancel()
	res, err := t.session.CallTool(ctx, &mcp.CallToolParams{Name: "run_command", Arguments: map[string]any{"command": command, "timeout_seconds": seconds}})
	if err != nil {
		return "", err
	}
	m, _ := res.StructuredContent.(map[string]any)
	out, _ := m["stdout"].(string)
	errs, _ := m["stderr"].(string)
	if m == nil {
		return "", fmt.Errorf("run_command gave no structured result")
	}
	return errs + "\n" + out, nil
}

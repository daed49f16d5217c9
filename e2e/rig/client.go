package rig

import (
	"context"
	"crypto/tls"
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// bearer adds a token to every request.
type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.next.RoundTrip(r)
}

// HTTPClient returns a client that sends the token, believes any certificate
// (Traefik's is self-signed) and follows no redirect.
func HTTPClient(token string) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	transport.DisableKeepAlives = true // nothing stays open at a test's end
	return &http.Client{
		Transport:     bearer{token, transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Transport names a way to speak MCP.
type Transport string

// The transports of an MCP endpoint: SSE at <base>/sse, streamable HTTP at
// <base>/mcp.
const (
	SSE        Transport = "sse"
	Streamable Transport = "mcp"
)

// Connect connects the Go SDK's client to base (…/mcp-sandbox) and closes the
// session at the test's end.
func Connect(t testing.TB, base, token string, how Transport) *mcp.ClientSession {
	t.Helper()
	session, err := TryConnect(t.Context(), base, token, how)
	if err != nil {
		t.Fatalf("connecting to %s over %s: %v", base, how, err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// TryConnect is Connect for tests that expect a refusal.
func TryConnect(ctx context.Context, base, token string, how Transport) (*mcp.ClientSession, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "sallyport-e2e", Version: "1"}, nil)
	var transport mcp.Transport = &mcp.StreamableClientTransport{
		Endpoint: base + "/mcp", HTTPClient: HTTPClient(token),
	}
	if how == SSE {
		transport = &mcp.SSEClientTransport{Endpoint: base + "/sse", HTTPClient: HTTPClient(token)}
	}
	return client.Connect(ctx, transport, nil)
}

package rig

import (
	"context"
	"crypto/tls"
	"net/http"
	"slices"
	"strings"
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
	client := mcpClient(token)
	client.Transport.(bearer).next.(*http.Transport).DisableKeepAlives = true // nothing stays open at a test's end
	return client
}

// mcpClient keeps its connections, as real clients do.
func mcpClient(token string) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
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
		Endpoint: base + "/mcp", HTTPClient: mcpClient(token),
	}
	if how == SSE {
		transport = &mcp.SSEClientTransport{Endpoint: base + "/sse", HTTPClient: mcpClient(token)}
	}
	return client.Connect(ctx, transport, nil)
}

// ThreeTools are the names of the tools that a client gets by default, sorted.
var ThreeTools = []string{"read_file", "run_command", "write_file"}

// UseThreeTools lists the tools and calls each of them, checking the answers.
func UseThreeTools(t testing.TB, session *mcp.ClientSession) {
	t.Helper()
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	if !slices.Equal(names, ThreeTools) {
		t.Errorf("tools %q, want %q", names, ThreeTools)
	}
	const file, content = "three-tools.txt", "through the chain\n"
	if got := Call(t, session, "write_file", Args{"path": file, "content": content})["bytes_written"]; got != float64(len(content)) {
		t.Errorf("write_file: bytes_written %v", got)
	}
	if got := Call(t, session, "run_command", Args{"command": "cat " + file})["stdout"]; got != content {
		t.Errorf("run_command: stdout %q", got)
	}
	if got := Call(t, session, "read_file", Args{"path": file})["content"]; got != content {
		t.Errorf("read_file: content %q", got)
	}
}

// Args are a tool's arguments, or its structured content.
type Args = map[string]any

// Call calls a tool that must succeed and returns its structured content.
func Call(t testing.TB, session *mcp.ClientSession, name string, arguments Args) Args {
	t.Helper()
	result := TryCall(t, session, name, arguments)
	content, _ := result.StructuredContent.(Args)
	if result.IsError || content == nil {
		t.Fatalf("%s: isError %t, %s", name, result.IsError, Text(result))
	}
	return content
}

// TryCall calls a tool and returns its result, whatever it says.
func TryCall(t testing.TB, session *mcp.ClientSession, name string, arguments Args) *mcp.CallToolResult {
	t.Helper()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return result
}

// Text is what a model reads of a result.
func Text(result *mcp.CallToolResult) string {
	var all strings.Builder
	for _, part := range result.Content {
		if text, ok := part.(*mcp.TextContent); ok {
			all.WriteString(text.Text)
		}
	}
	return all.String()
}

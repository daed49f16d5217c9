package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/desk"
	"github.com/sallyport-dev/sallyport/internal/identity"
	"github.com/sallyport-dev/sallyport/sandboxd/serve"
)

const token = "0123456789abcdef0123456789abcdef"

// patience bounds every wait for an event; it is no measure of anything.
const patience = 60 * time.Second

// probes are tools that show what the server does around a tool. Their names
// are those of real tools where grants matter.
type probes struct {
	started chan string // a name, when wait has begun
	ended   chan error  // why wait ended

	progress chan string // what clients were told meanwhile
}

func newProbes() *probes {
	return &probes{started: make(chan string, 100), ended: make(chan error, 100), progress: make(chan string, 100)}
}

// Change stands for a file that is always the same.
func (p *probes) Change(string, json.RawMessage) (digest, preview string, err error) {
	return "digest", "-old\n+new\n", nil
}

type input struct {
	Text string `json:"text,omitempty"`
	Size int    `json:"size,omitempty"`
}

type output struct {
	Text      string `json:"text"`
	Principal string `json:"principal"`
}

func (p *probes) Register(s *mcp.Server) {
	mcp.AddTool(s, &mcp.Tool{Name: "read_file", Description: "echo"}, p.echo)
	mcp.AddTool(s, &mcp.Tool{Name: "run_command", Description: "wait for the end of the call"}, p.wait)
	mcp.AddTool(s, &mcp.Tool{Name: "write_file", Description: "panic"}, p.panic)
}

func (p *probes) echo(ctx context.Context, req *mcp.CallToolRequest, in input) (*mcp.CallToolResult, output, error) {
	if token := req.Params.GetProgressToken(); token != nil {
		if err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1, Message: "begun"}); err != nil {
			return nil, output{}, err
		}
	}
	if in.Text == "protocol error" {
		return nil, output{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "too late for a status"}
	}
	if in.Text == "fail" {
		return nil, output{}, fmt.Errorf("failed as asked")
	}
	id, _ := identity.From(ctx)
	return nil, output{Text: in.Text + strings.Repeat("x", in.Size), Principal: id.Principal}, nil
}

func (p *probes) wait(ctx context.Context, _ *mcp.CallToolRequest, in input) (*mcp.CallToolResult, output, error) {
	p.started <- in.Text
	select {
	case <-ctx.Done():
	case <-time.After(patience):
	}
	p.ended <- ctx.Err()
	if in.Text == "late" {
		said := []mcp.Content{&mcp.TextContent{Text: context.Cause(ctx).Error()}}
		return &mcp.CallToolResult{Meta: mcp.Meta{"late": late{}}, IsError: true, Content: said}, output{}, nil
	}
	return nil, output{}, context.Cause(ctx)
}

// late takes time to become JSON, as a large result does on a busy machine.
type late struct{}

func (late) MarshalJSON() ([]byte, error) {
	time.Sleep(300 * time.Millisecond)
	return []byte("true"), nil
}

func (p *probes) panic(context.Context, *mcp.CallToolRequest, input) (*mcp.CallToolResult, output, error) {
	panic("as asked")
}

// server is a Server on a listener of its own.
type server struct {
	*serve.Server
	*probes
	URL   string // of the base path
	Root  string
	log   *buffer
	audit *buffer
	desk  *desk.Desk
}

func start(t testing.TB, change func(*serve.Settings)) *server {
	t.Helper()
	set := serve.Settings{MaxSessions: 256, Tools: []string{"run_command", "read_file", "write_file"}}
	set.BasePath, set.Token, set.Hosts = "/mcp-sandbox", token, []string{"127.0.0.1"}
	if change != nil {
		change(&set)
	}
	s := &server{probes: newProbes(), log: &buffer{}, audit: &buffer{}}
	log := slog.New(slog.NewJSONHandler(s.log, nil))
	records, err := audit.Open(audit.Options{File: "-", Stdout: s.audit})
	if err != nil {
		t.Fatal(err)
	}
	s.desk = desk.New(records, log)
	s.Server = serve.New(set, s.probes, s.desk, log)
	h := httptest.NewServer(s.Handler())
	t.Cleanup(func() { s.Close(); h.Close() })
	s.Root, s.URL = h.URL, h.URL+set.BasePath
	return s
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// headers adds headers to every request of a client.
type headers struct {
	h    *changing
	next http.RoundTripper
}

func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range h.h.get() {
		r.Header[name] = values
	}
	return h.next.RoundTrip(r)
}

// as are the headers of a principal that the edge let in.
func as(principal, tools string) http.Header {
	h := http.Header{"Authorization": {"Bearer " + token}}
	if principal != "" {
		h.Set(identity.PrincipalHeader, principal)
		h.Set(identity.ToolsHeader, tools)
	}
	return h
}

// transports are all ways to talk to the server, by name.
var transports = map[string]struct{ path, version string }{
	"sse":        {"/sse", "2024-11-05"},
	"2025-03-26": {"/mcp", "2025-03-26"},
	"2025-06-18": {"/mcp", "2025-06-18"},
	"2025-11-25": {"/mcp", "2025-11-25"},
	"2026-07-28": {"/mcp", "2026-07-28"},
}

func eachTransport(t *testing.T, f func(t *testing.T, transport string)) {
	for name := range transports {
		t.Run(name, func(t *testing.T) { t.Parallel(); f(t, name) })
	}
}

// connect opens a client. What it returns besides cuts all its connections, as
// the end of the client's process would.
func connect(t testing.TB, s *server, transport string, h http.Header) (*mcp.ClientSession, func()) {
	t.Helper()
	return connectWith(t, s, transport, &changing{h: h})
}

func connectWith(t testing.TB, s *server, transport string, h *changing) (*mcp.ClientSession, func()) {
	t.Helper()
	dialer := &http.Transport{}
	ctx, cut := context.WithCancel(t.Context())
	client := &http.Client{Transport: headers{h, cutting{ctx, dialer}}}
	way := transports[transport]
	var tr mcp.Transport = &mcp.StreamableClientTransport{Endpoint: s.URL + way.path, HTTPClient: client, MaxRetries: -1}
	if way.path == "/sse" {
		tr = &mcp.SSEClientTransport{Endpoint: s.URL + way.path, HTTPClient: client}
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { s.progress <- r.Params.Message },
	})
	session, err := c.Connect(ctx, tr, &mcp.ClientSessionOptions{ProtocolVersion: way.version})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	if got := session.InitializeResult().ProtocolVersion; got != way.version {
		t.Fatalf("negotiated %s, want %s", got, way.version)
	}
	t.Cleanup(func() { cut(); session.Close(); dialer.CloseIdleConnections() })
	return session, cut
}

// cutting ends every request when its context ends.
type cutting struct {
	ctx  context.Context
	next http.RoundTripper
}

func (c cutting) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	context.AfterFunc(c.ctx, cancel)
	return c.next.RoundTrip(r.WithContext(ctx))
}

func call(t *testing.T, c *mcp.ClientSession, tool string, args map[string]any) (*mcp.CallToolResult, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return c.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
}

func text(r *mcp.CallToolResult) string {
	var b strings.Builder
	for _, c := range r.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			b.WriteString(text.Text)
		}
	}
	return b.String()
}

// send makes one request and returns the status, the header and the body.
func send(t *testing.T, method, url string, h http.Header, body string) (*http.Response, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range h {
		r.Header[name] = values
	}
	if host := h.Get("Host"); host != "" {
		r.Host = host
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(data)
}

// with copies h and sets names to values, pair by pair.
func with(h http.Header, pairs ...string) http.Header {
	h = h.Clone()
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

// jsonHeader are the headers of a POST to /mcp by p.
func jsonHeader(p http.Header, pairs ...string) http.Header {
	return with(with(p, "Content-Type", "application/json", "Accept", "application/json, text/event-stream"), pairs...)
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`

// eventually waits for a condition that nothing announces.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func receive[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("never: %s", what)
		panic("unreachable")
	}
}

package serve

import (
	"context"
	"crypto/rand"
	"io"
	"mime"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/internal/httpd"
	"github.com/sallyport-dev/sallyport/internal/identity"
	"github.com/sallyport-dev/sallyport/internal/session"
)

// serveSSE is the HTTP+SSE transport of MCP 2024-11-05: a GET opens the stream
// and each POST to the endpoint that the stream names carries one message.
//
// The SDK's own handler is not used, because there a session answers to anyone
// who knows its ID, and a message is handled with the rights of the GET.
func (s *Server) serveSSE(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("sessionid")
	switch {
	case r.Method == http.MethodPost && id != "":
		s.postSSE(w, r, id)
	case r.Method == http.MethodPost:
		// Clients that try streamable HTTP first fall back on 405.
		httpd.RefuseMethod(w, "GET")
	case r.Method == http.MethodGet:
		s.openSSE(w, r)
	default:
		httpd.RefuseMethod(w, "GET, POST")
	}
}

func (s *Server) openSSE(w http.ResponseWriter, r *http.Request) {
	identity, _ := identity.From(r.Context())
	place, err := s.sessions.Reserve(identity.Principal)
	if err != nil {
		session.Refuse(w, err)
		return
	}
	defer place.Leave()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	stream := httpd.StreamFrom(ctx)
	t := &sseTransport{
		id: rand.Text(), path: s.set.BasePath + "/sse", w: w,
		incoming: make(chan jsonrpc.Message, 16), done: make(chan struct{}),
		gone: ctx, stream: stream,
	}
	place.Bind(t.id, cancel)
	defer place.End()
	s.sse.Store(t.id, t) // before the client learns the ID: its first POST may be quick
	defer s.sse.Delete(t.id)

	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache, no-transform")
	session, err := s.mcp.Connect(ctx, t, nil)
	if err != nil {
		return // the client went away before its first event
	}
	s.log.Info("session opened", "transport", "sse", "principal", identity.Principal)
	select {
	case <-ctx.Done():
	case <-t.done:
	}
	cancel()
	_ = session.Close() // waits for the calls that cancel has ended
	s.log.Info("session closed", "transport", "sse", "principal", identity.Principal)
}

func (s *Server) postSSE(w http.ResponseWriter, r *http.Request, id string) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		http.Error(w, "Content-Type must be application/json", http.StatusUnsupportedMediaType)
		return
	}
	identity, _ := identity.From(r.Context())
	held, err := s.sessions.Enter(id, identity.Principal)
	if err != nil {
		session.Refuse(w, err)
		return
	}
	defer held.Leave()
	t, ok := s.sse.Load(id)
	if !ok {
		session.Refuse(w, session.ErrUnknown) // a session of the other transport
		return
	}
	t.(*sseTransport).post(w, r, identity)
}

// sseTransport is one session's stream. It implements mcp.Transport and
// mcp.Connection.
type sseTransport struct {
	id, path string
	w        http.ResponseWriter
	gone     context.Context // ends with the GET
	stream   *httpd.Stream
	incoming chan jsonrpc.Message
	close    sync.Once
	done     chan struct{}
}

// post queues the message in r's body. Its answer goes out on the stream.
func (t *sseTransport) post(w http.ResponseWriter, r *http.Request, identity identity.Identity) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "the request body could not be read", http.StatusBadRequest)
		return
	}
	msg, err := jsonrpc.DecodeMessage(body)
	if err != nil {
		http.Error(w, "the body is not one JSON-RPC 2.0 message", http.StatusBadRequest)
		return
	}
	if req, ok := msg.(*jsonrpc.Request); ok {
		m := &message{identity: identity, session: t.id, size: int64(len(body)), gone: t.gone, stream: t.stream}
		req.Extra = &mcp.RequestExtra{TokenInfo: m.tokenInfo(), Header: r.Header}
	}
	select {
	case t.incoming <- msg:
		w.WriteHeader(http.StatusAccepted)
	case <-t.gone.Done():
		session.Refuse(w, session.ErrUnknown)
	case <-r.Context().Done():
	}
}

// Connect sends the event that names the endpoint: an absolute path, so that
// it holds for whatever scheme and host the client used.
func (t *sseTransport) Connect(context.Context) (mcp.Connection, error) {
	return t, t.event("endpoint", []byte(t.path+"?sessionid="+t.id))
}

// SupportsProtocolVersion keeps the SDK from offering the stateless protocol
// here: 2026-07-28 has no HTTP+SSE binding.
func (t *sseTransport) SupportsProtocolVersion(version string) bool { return version < modern }

// SessionID is the session's ID.
func (t *sseTransport) SessionID() string { return t.id }

// Read waits for the client's next message.
func (t *sseTransport) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case msg := <-t.incoming:
		return msg, nil
	case <-t.done:
		return nil, io.EOF
	}
}

// Write sends a message to the client.
func (t *sseTransport) Write(_ context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	return t.event("message", data)
}

// Close ends the stream.
func (t *sseTransport) Close() error {
	t.close.Do(func() { close(t.done) })
	return nil
}

// event writes one server-sent event in one write, so that no keep-alive
// comment can come between its parts. JSON holds no line break.
func (t *sseTransport) event(name string, data []byte) error {
	buf := make([]byte, 0, len(data)+32)
	buf = append(append(buf, "event: "+name+"\ndata: "...), data...)
	if _, err := t.w.Write(append(buf, "\n\n"...)); err != nil {
		return err
	}
	return http.NewResponseController(t.w).Flush()
}

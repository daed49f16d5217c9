package serve

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"sync"

	sdkrpc "github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
	"github.com/sallyport-dev/sallyport/internal/mcphttp"
	idle "github.com/sallyport-dev/sallyport/internal/session"
)

// link is the SDK's connection for one session, or for one request of the
// stateless protocol. It implements mcp.Transport and mcp.Connection.
//
// The SDK keeps ids as floats or strings and answers under them; so each
// request goes in under an id of ours, a string, and its answer, its progress
// and its notifications get the client's own bytes back on their way out.
type link struct {
	server   *Server
	push     mcphttp.Push
	incoming chan sdkrpc.Message
	done     chan struct{}

	mu        sync.Mutex
	connected bool
	session   *mcp.ServerSession // the SDK's, once connected
	closed    bool
	last      int64
	calls     map[string]*call
}

// call is one request on its way, under its id of ours.
type call struct {
	id, token []byte // the client's id and progress token, as it wrote them
	listens   bool   // a subscriptions/listen, whose notifications name it
	sink      mcphttp.Sink
	leave     context.CancelFunc // behind the answer: Close waits for it
	canceled  bool               // nobody waits for an answer; guarded by link.mu
}

func newLink(s *Server, push mcphttp.Push) *link {
	return &link{server: s, push: push, incoming: make(chan sdkrpc.Message, 4), done: make(chan struct{}),
		calls: map[string]*call{}}
}

// send passes a request or notification on to the SDK.
func (l *link) send(ctx context.Context, req mcphttp.Request) (mcphttp.Cancel, error) {
	if err := l.connect(); err != nil {
		return nil, err
	}
	m := req.Message
	gone, leave := context.WithCancel(context.Background())
	if m.Method == "tools/call" {
		leave = l.server.awaited(leave)
	}
	msg := &message{identity: req.Identity, session: req.Session, size: int64(len(m.Raw)), gone: gone}
	out := &sdkrpc.Request{Method: m.Method, Extra: msg.extra()}
	if m.Params().Present() {
		out.Params = m.Bytes(m.Params())
	}
	if !m.IsRequest() {
		leave()
		return nil, l.enqueue(ctx, out)
	}
	at := m.Param("_meta", "progressToken")
	name := l.add(&call{id: m.ID(), token: m.Bytes(at), sink: req.Sink, leave: leave,
		listens: m.Method == "subscriptions/listen"})
	out.ID, _ = sdkrpc.MakeID(name)
	if at.Present() {
		begin := m.Params().Start
		whole := jsonrpc.Splice(m.Raw[:m.Params().End], jsonrpc.Edit{At: at, New: strconv.AppendQuote(nil, name)})
		out.Params = whole[begin:]
	}
	if err := l.enqueue(ctx, out); err != nil {
		l.take(name)
		leave()
		return nil, err
	}
	return func() { l.cancel(name) }, nil
}

// connect makes the SDK read this link, at its first message.
func (l *link) connect() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return idle.ErrUnknown
	}
	if l.connected {
		return nil
	}
	session, err := l.server.mcp.Connect(context.Background(), l, nil)
	l.connected, l.session = err == nil, session
	return err
}

func (l *link) enqueue(ctx context.Context, m sdkrpc.Message) error {
	select {
	case l.incoming <- m:
		return nil
	case <-l.done:
		return idle.ErrUnknown
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *link) add(c *call) (name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	name = strconv.FormatInt(l.last, 10)
	l.calls[name] = c
	return name
}

// take removes a call and returns it, or nil.
func (l *link) take(name string) *call {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.calls[name]
	delete(l.calls, name)
	return c
}

func (l *link) find(name string) *call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[name]
}

// cancel ends a call for which nobody waits any more. The tool's context ends
// with it, and what the SDK still answers goes nowhere.
func (l *link) cancel(name string) {
	l.mu.Lock()
	c := l.calls[name]
	if c == nil || c.canceled {
		l.mu.Unlock()
		return
	}
	c.canceled = true
	l.mu.Unlock()
	c.leave()
	params, _ := json.Marshal(map[string]string{"requestId": name})
	notice := &sdkrpc.Request{Method: "notifications/cancelled", Params: params,
		Extra: (&message{gone: context.Background()}).extra()}
	_ = l.enqueue(context.Background(), notice) // the SDK never stops to read before done
}

// cancelled ends the calls that the client itself takes back, by its own id.
func (l *link) cancelled(id []byte) {
	for _, name := range l.names(func(c *call) bool { return len(id) > 0 && string(c.id) == string(id) }) {
		l.cancel(name)
	}
}

func (l *link) names(which func(*call) bool) (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, c := range l.calls {
		if which(c) {
			list = append(list, name)
		}
	}
	return list
}

// shut ends the link and what runs on it.
func (l *link) shut() {
	for _, name := range l.names(func(*call) bool { return true }) {
		if c := l.find(name); c != nil {
			c.leave()
		}
	}
	_ = l.Close()
}

// Connect implements mcp.Transport.
func (l *link) Connect(context.Context) (mcp.Connection, error) { return l, nil }

// SessionID implements mcp.Connection.
func (l *link) SessionID() string { return "" }

// Read implements mcp.Connection.
func (l *link) Read(ctx context.Context) (sdkrpc.Message, error) {
	select {
	case m := <-l.incoming:
		return m, nil
	case <-l.done:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close implements mcp.Connection.
func (l *link) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		close(l.done)
	}
	return nil
}

// Write implements mcp.Connection.
func (l *link) Write(_ context.Context, msg sdkrpc.Message) error {
	if answer, ok := msg.(*sdkrpc.Response); ok {
		return l.answer(answer)
	}
	raw, err := sdkrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	m, err := jsonrpc.Parse(raw)
	if err != nil {
		return err
	}
	l.notify(m)
	return nil
}

// answer delivers a response under the client's id.
func (l *link) answer(r *sdkrpc.Response) error {
	name, _ := r.ID.Raw().(string)
	c := l.take(name)
	if c == nil {
		return nil
	}
	defer c.leave()
	switch {
	case c.canceled:
		c.sink.Deliver(nil, true)
	case r.Error != nil:
		c.sink.Deliver(fault(c.id, r.Error), true)
	default:
		c.sink.Deliver(c.named(jsonrpc.Answer(c.id, plain(r.Result))), true)
	}
	return nil
}

// named gives a subscription its client's id back.
func (c *call) named(raw []byte) []byte {
	if !c.listens {
		return raw
	}
	m, err := jsonrpc.Parse(raw)
	if err != nil {
		return raw
	}
	return jsonrpc.Splice(m.Raw, jsonrpc.Edit{At: m.Find(m.Result(), "_meta", mcphttp.SubscriptionKey), New: c.id})
}

// fault is an error of the SDK's as the client sees it.
func fault(id []byte, err error) []byte {
	var e *sdkrpc.Error
	switch {
	case !errors.As(err, &e):
		return jsonrpc.Fault(id, jsonrpc.InternalError, "%v", err)
	case len(e.Data) > 0:
		return jsonrpc.FaultData(id, int(e.Code), err.Error(), e.Data)
	}
	return jsonrpc.Fault(id, int(e.Code), "%v", err)
}

// notify delivers what the SDK says beside its answers: to the call that it
// names, else to the session.
func (l *link) notify(m *jsonrpc.Message) {
	token, listen := m.Param("progressToken"), m.Param("_meta", mcphttp.SubscriptionKey)
	switch {
	case m.Method == "notifications/progress":
		if c := l.find(m.Text(token)); c != nil {
			c.sink.Deliver(jsonrpc.Splice(m.Raw, jsonrpc.Edit{At: token, New: c.token}), false)
		}
	case listen.Present():
		if c := l.find(m.Text(listen)); c != nil {
			c.sink.Deliver(jsonrpc.Splice(m.Raw, jsonrpc.Edit{At: listen, New: c.id}), false)
		}
	default:
		l.push(m, nil)
	}
}

package lifecycle

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
	"github.com/sallyport-dev/sallyport/internal/mcphttp"
)

// Session is one client's session in the eras that have them. It outlives the
// process behind it: a server that was asleep is initialised again with the
// client's own initialize.
type Session struct {
	server *Server
	push   mcphttp.Push

	mu    sync.Mutex // one message at a time, in the order of their coming
	hello *jsonrpc.Message
	ready *jsonrpc.Message // the client's notifications/initialized
	ch    *channel
	told  []byte // the snapshot's tools that the client was told

	waiting sync.Map // id to mcphttp.Cancel, of calls that wait for the owner
}

// Session starts a session. Nothing is woken by it.
func (s *Server) Session(push mcphttp.Push) *Session { return &Session{server: s, push: push} }

// OwnSession is a session of the hub itself, which answers no questions.
func (s *Server) OwnSession() *Session {
	return &Session{server: s, push: func(*jsonrpc.Message, mcphttp.Sink) {}, hello: ownHello, ready: initialized}
}

// Push implements mux.Client.
func (c *Session) Push(m *jsonrpc.Message, near mcphttp.Sink) { c.push(m, near) }

// Supports implements mux.Client. A process of its own may ask its client
// anything; a shared one only what this client, too, declared.
func (c *Session) Supports(method string) bool {
	if c.hello == ownHello {
		return false
	}
	need := map[string]string{"sampling/createMessage": "sampling", "elicitation/create": "elicitation",
		"roots/list": "roots"}[method]
	return !c.server.cfg.Shared || need != "" && c.hello.Param("capabilities", need).Present()
}

// Handle takes one message. An error is a *StateError or the end of ctx, and
// then nothing was or will be delivered. It returns when the message is on its
// way, which may take as long as the server takes to wake.
func (c *Session) Handle(ctx context.Context, req mcphttp.Request) (mcphttp.Cancel, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := req.Message
	switch {
	case m.IsResponse():
		if c.live() {
			c.ch.Answer(c, m)
		}
	case !m.IsRequest():
		c.notify(m)
	case m.Method == "initialize" && c.hello == nil:
		return nil, c.initialize(ctx, req)
	case m.Method == "initialize", c.hello == nil:
		req.Sink.Deliver(jsonrpc.Fault(m.ID(), jsonrpc.InvalidRequest, "initialize comes first, and once"), true)
	default:
		return c.call(ctx, req)
	}
	return nil, nil
}

func (c *Session) live() bool { return c.ch != nil && c.ch.Err() == nil }

func (c *Session) notify(m *jsonrpc.Message) {
	if m.Method == "notifications/cancelled" {
		if cancel, ok := c.waiting.Load(string(m.Bytes(m.Param("requestId")))); ok {
			cancel.(mcphttp.Cancel)()
		}
	}
	if m.Method == "notifications/initialized" {
		again := c.ready != nil
		if c.ready = m; again || c.server.cfg.Shared {
			return
		}
	}
	if c.live() {
		c.ch.Forward(c, m)
	}
}

// initialize answers from the snapshot, so that a client that only looks wakes
// nobody, or else from the server.
func (c *Session) initialize(ctx context.Context, req mcphttp.Request) error {
	m := req.Message
	version := m.Text(m.Param("protocolVersion"))
	c.hello, c.ready = m, nil
	if result := c.server.initResult(m); result != nil && !c.live() {
		req.Sink.Deliver(jsonrpc.Answer(m.ID(), result), true)
		return nil
	}
	if err := c.wake(ctx); err != nil {
		c.hello = nil
		return err
	}
	reply := c.ch.reply
	if !reply.IsError() {
		result := c.server.forVersion(reply.Bytes(reply.Result()), version)
		req.Sink.Deliver(jsonrpc.Answer(m.ID(), result), true)
		return nil
	}
	req.Sink.Deliver(jsonrpc.Splice(reply.Raw, jsonrpc.Edit{At: reply.IDSpan(), New: m.ID()}), true)
	if c.hello = nil; !c.server.cfg.Shared {
		c.server.end(c.ch)
	}
	return nil
}

// wake makes sure that there is a live channel.
func (c *Session) wake(ctx context.Context) (err error) {
	if c.live() {
		return nil
	}
	if c.server.cfg.Shared {
		c.ch, err = c.server.shared(ctx, c.hello)
	} else {
		c.ch, err = c.server.begin(ctx, c.hello)
	}
	if err != nil {
		c.ch = nil
		if c.server.Gone() { // for which the session's context may have ended first
			return c.server.gone()
		}
		return err
	}
	if !c.ch.reply.IsError() {
		c.server.learn(c.hello, c.ch.reply)
		if c.ready != nil && !c.server.cfg.Shared {
			c.ch.Forward(c, c.ready)
		}
	}
	return nil
}

// call takes a request other than initialize.
func (c *Session) call(ctx context.Context, req mcphttp.Request) (mcphttp.Cancel, error) {
	if !c.live() && c.fromSnapshot(req) {
		return nil, nil
	}
	if !c.server.asks(req) {
		return c.server.admit(ctx, req, c.forward)
	}
	// It waits while c goes on; its client may take it back meanwhile.
	ctx, cancel := context.WithCancel(ctx)
	id := string(req.Message.ID())
	c.waiting.Store(id, mcphttp.Cancel(cancel)) // first, for it may end at once
	req.Sink = &noting{Sink: req.Sink, ended: func() { c.waiting.Delete(id); cancel() }}
	return c.server.admit(ctx, req, func(ctx context.Context, req mcphttp.Request) (mcphttp.Cancel, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.forward(ctx, req)
	})
}

// forward wakes the server and sends it an admitted request. c.mu is held.
func (c *Session) forward(ctx context.Context, req mcphttp.Request) (mcphttp.Cancel, error) {
	for range maxTries {
		if err := c.wake(ctx); err != nil {
			return nil, err
		}
		cancel, err := c.pass(ctx, c.ch, req)
		if c.live() || err == nil {
			return cancel, err
		}
		// It ended just now, perhaps to make room: nothing was sent yet.
	}
	return nil, c.server.restless()
}

// pass sends a request to an awake server. Its error says that nothing was
// sent.
func (c *Session) pass(ctx context.Context, ch *channel, req mcphttp.Request) (mcphttp.Cancel, error) {
	if ch.reply.IsError() && !c.server.cfg.Shared {
		req.Sink.Deliver(jsonrpc.Splice(ch.reply.Raw, jsonrpc.Edit{At: ch.reply.IDSpan(), New: req.Message.ID()}), true)
		return nil, nil
	}
	if err := c.server.vet(ctx, ch, req); err != nil && ch.Err() == nil {
		req.Sink.Deliver(jsonrpc.Fault(req.Message.ID(), jsonrpc.InvalidParams, "%v", err), true)
		return nil, nil
	}
	c.compare()
	call := c.server.newCall(req)
	call.Client = c
	if err := ch.Start(call); err != nil {
		return nil, err
	}
	ch.used.Store(true)
	return func() { ch.Cancel(call, "client gone") }, nil
}

// fromSnapshot answers what a sleeping server need not be woken for.
func (c *Session) fromSnapshot(req mcphttp.Request) bool {
	m := req.Message
	switch tools := c.server.toolsFor(mark(c.hello)); {
	case m.Method == "ping":
		req.Sink.Deliver(jsonrpc.Answer(m.ID(), json.RawMessage("{}")), true)
	case m.Method == "tools/list" && tools != nil && !m.Param("cursor").Present():
		c.told = tools
		req.Sink.Deliver(c.server.filter(req, mustParse(jsonrpc.Answer(m.ID(), tools))), true)
	default:
		return false
	}
	return true
}

// compare tells a client whose list came from a snapshot that the awake server
// has another one.
func (c *Session) compare() {
	if c.told != nil && !bytes.Equal(c.told, c.server.toolsFor(mark(c.hello))) {
		c.push(mustParse(jsonrpc.Notification("notifications/tools/list_changed", json.RawMessage("{}"))), nil)
	}
	c.told = nil
}

// Gone reports a session whose server's entry was edited or removed.
func (c *Session) Gone() bool { return c.server.Gone() }

// Close ends the session and what runs for it.
func (c *Session) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ch == nil:
	case c.server.cfg.Shared:
		c.ch.Detach(c)
	default:
		c.server.end(c.ch)
	}
	c.ch = nil
}

// learn keeps the answer to a handshake.
func (s *Server) learn(hello, reply *jsonrpc.Message) {
	version := hello.Text(hello.Param("protocolVersion"))
	s.mu.Lock()
	defer s.mu.Unlock()
	said := reply.Bytes(reply.Result())
	key := initKey(version, mark(hello))
	if s.cfg.Shared {
		key = version
	}
	if bytes.Equal(s.snap.Init[key], said) || !slices.Contains(mcphttp.Versions, version) {
		return
	}
	if len(s.snap.Init) >= maxMarks*len(mcphttp.Versions) && s.snap.Init[key] == nil {
		clear(s.snap.Init) // a new kind of client each time does not fill the disk
	}
	s.snap.Init[key] = said
	s.save(func() { delete(s.snap.Init, key) })
}

package serve

import (
	"context"
	"sync/atomic"

	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
	"github.com/sallyport-dev/sallyport/internal/mcphttp"
)

// target is the sandbox as package mcphttp sees it: it hands each message to
// the SDK through a link.
type target struct{ *Server }

// Open implements mcphttp.Target.
func (t target) Open(push mcphttp.Push) mcphttp.Session {
	return &session{link: newLink(t.Server, push)}
}

// Once implements mcphttp.Target. The SDK knows the stateless protocol by the
// message itself; each request gets a connection of its own, since the SDK
// remembers the first one's client.
func (t target) Once(ctx context.Context, req mcphttp.Request) (mcphttp.Cancel, error) {
	l := newLink(t.Server, func(*jsonrpc.Message, mcphttp.Sink) {})
	req.Sink = closing{req.Sink, l}
	cancel, err := l.send(ctx, req)
	if err != nil {
		l.Close()
	}
	return cancel, err
}

// closing ends a link with its only call.
type closing struct {
	mcphttp.Sink
	link *link
}

// Deliver implements mcphttp.Sink.
func (c closing) Deliver(raw []byte, final bool) {
	if c.Sink.Deliver(raw, final); final {
		c.link.Close()
	}
}

// session is a client's session in the versions that have them.
type session struct {
	*link
	greeted atomic.Bool // by an initialize that was not refused
	ready   atomic.Bool // it was answered
}

// Handle implements mcphttp.Session.
func (s *session) Handle(ctx context.Context, req mcphttp.Request) (mcphttp.Cancel, error) {
	m := req.Message
	switch {
	case m.IsResponse():
		return nil, nil // the sandbox asks its clients nothing
	case m.Method == "notifications/cancelled":
		s.cancelled(m.Bytes(m.Param("requestId")))
		return nil, nil
	case m.IsRequest() && m.Method != "ping" && s.greeted.Load() == (m.Method == "initialize"):
		req.Sink.Deliver(jsonrpc.Fault(m.ID(), jsonrpc.InvalidRequest, "initialize comes first, and once"), true)
		return nil, nil
	case m.Method == "tools/call" && s.ready.Load():
		if cancel, ok := s.direct(req); ok {
			return cancel, nil
		}
	case m.Method == "initialize":
		s.greeted.Store(true)
		req.Sink = greeting{req.Sink, s}
	}
	return s.send(ctx, req)
}

// greeting lets a client that was refused initialise again.
type greeting struct {
	mcphttp.Sink
	session *session
}

// Deliver implements mcphttp.Sink.
func (g greeting) Deliver(raw []byte, final bool) {
	if m, err := jsonrpc.Parse(raw); final && err == nil && m.IsError() {
		g.session.greeted.Store(false)
	}
	g.session.ready.Store(g.session.greeted.Load())
	g.Sink.Deliver(raw, final)
}

// Close implements mcphttp.Session: what runs is cancelled.
func (s *session) Close() { s.shut() }

// Gone implements mcphttp.Session.
func (s *session) Gone() bool { return false }

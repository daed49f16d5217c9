package serve

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
	"github.com/sallyport-dev/sallyport/internal/mcphttp"
)

// capture keeps the whole way of a message through the server, from the first
// of our middlewares to the SDK's own dispatch.
func (s *Server) capture(next mcp.MethodHandler) mcp.MethodHandler {
	s.handle = next
	return next
}

// direct runs a tools/call without the SDK's connection, which decodes each
// message three times, into 32 KiB of buffer each: it reads the few fields
// itself and enters the same way where the SDK would. It reports false for
// what only the SDK reads. TestDirectCallsAreTheSDKs compares the two.
func (l *link) direct(req mcphttp.Request) (mcphttp.Cancel, bool) {
	params, ok := callParams(req.Message)
	l.mu.Lock()
	session := l.session
	l.mu.Unlock()
	if !ok || session == nil || l.server.indirect {
		return nil, false
	}
	gone, cancel := context.WithCancel(context.Background())
	token := req.Message.Param("_meta", "progressToken")
	name := l.add(&call{id: req.Message.ID(), token: req.Message.Bytes(token), sink: req.Sink,
		leave: l.server.awaited(cancel)})
	if token.Present() {
		params.SetProgressToken(name)
	}
	m := &message{identity: req.Identity, session: req.Session, size: int64(len(req.Message.Raw)), gone: gone}
	call := &mcp.CallToolRequest{Session: session, Params: params, Extra: m.extra()}
	go func() {
		defer l.server.turn(params.Name, m)()
		result, err := l.server.handle(context.Background(), "tools/call", call)
		var raw []byte
		if err == nil {
			raw, err = json.Marshal(result)
		}
		l.finish(name, raw, err)
	}()
	return func() { l.drop(name) }, true
}

// turn waits until few enough calls read or write files: each holds a file some times
// over until its answer is made, and over HTTP+SSE nothing else bounds how many come. The
// caller must leave. What waits for the owner waits elsewhere.
func (s *Server) turn(name string, m *message) (leave func()) {
	if name != "read_file" && name != "write_file" && name != "edit_file" || m.identity.Asks(name) {
		return func() {}
	}
	select {
	case s.brief <- struct{}{}:
		return func() { <-s.brief }
	case <-m.gone.Done(): // a call that nobody waits for ends by itself
		return func() {}
	}
}

// callParams reads the parameters of a tools/call in a session.
func callParams(m *jsonrpc.Message) (*mcp.CallToolParamsRaw, bool) {
	params := &mcp.CallToolParamsRaw{}
	for _, f := range m.Members(m.Params()) {
		raw := m.Bytes(f.Value)
		var err error
		switch f.Key {
		case "name":
			err = json.Unmarshal(raw, &params.Name)
		case "arguments":
			params.Arguments = raw
		case "_meta":
			err = json.Unmarshal(raw, &params.Meta)
		case "inputResponses", "requestState":
			return nil, false // of the stateless protocol
		}
		if err != nil {
			return nil, false
		}
	}
	return params, m.Params().Present() && m.Raw[m.Params().Start] == '{'
}

// finish delivers what a direct call came to.
func (l *link) finish(name string, result []byte, err error) {
	c := l.take(name)
	if c == nil {
		return
	}
	defer c.leave()
	switch {
	case c.canceled:
		c.sink.Deliver(nil, true)
	case err != nil:
		c.sink.Deliver(fault(c.id, err), true)
	default:
		c.sink.Deliver(jsonrpc.Answer(c.id, plain(result)), true)
	}
}

// drop ends a direct call for which nobody waits any more: its context ends.
func (l *link) drop(name string) {
	l.mu.Lock()
	c := l.calls[name]
	if c != nil {
		c.canceled = true
	}
	l.mu.Unlock()
	if c != nil {
		c.leave()
	}
}

package mux

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sallyport-dev/sallyport/hub/upstream"
	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
	"github.com/sallyport-dev/sallyport/internal/mcphttp"
)

// The keys of MCP 2026-07-28 that correlate messages.
const (
	subscriptionKey = "io.modelcontextprotocol/subscriptionId"
	logLevelKey     = "io.modelcontextprotocol/logLevel"
)

// loudNoise is how many lines that are not JSON reach the log.
const loudNoise = 20

func (l *Link) read() {
	defer close(l.done)
	var unasked pace
	for {
		raw, err := l.conn.Receive()
		if err != nil {
			l.end(err)
			l.conn.Close()
			return
		}
		if !l.receive(raw) {
			unasked.take(len(raw))
		}
	}
}

// receive handles one line, and reports whether it answers a call.
func (l *Link) receive(raw []byte) bool {
	if len(bytes.TrimSpace(raw)) == 0 {
		return false
	}
	if !utf8.Valid(raw) { // what JSON is not; clients would fail on it
		raw = bytes.ToValidUTF8(raw, []byte("\ufffd"))
	}
	m, err := jsonrpc.Parse(raw)
	if err != nil {
		l.skip(raw, err)
		l.unread(raw, err)
		return false
	}
	return l.route(m)
}

// skip leaves out a line that is no message, as MCP's stdio transport forbids.
func (l *Link) skip(raw []byte, why error) {
	if l.noise.Add(1) > loudNoise {
		return
	}
	l.opt.Log.Warn("skipped a line of stdout, which belongs to the protocol: "+why.Error(), "line",
		string(raw[:min(len(raw), 200)]))
}

// route reports whether m answers a call.
func (l *Link) route(m *jsonrpc.Message) bool {
	l.mu.Lock()
	l.active = time.Now()
	l.mu.Unlock()
	switch {
	case m.IsResponse():
		return l.respond(m)
	case m.IsRequest():
		l.ask(m)
	case m.Method == "notifications/progress":
		l.toCall(m, m.Param("progressToken"), func(c *Call) []byte {
			return c.Message.Bytes(c.Message.Param("_meta",
				"progressToken"))
		})
	case m.Param("_meta", subscriptionKey).Present():
		l.toCall(m, m.Param("_meta", subscriptionKey), func(c *Call) []byte { return c.Message.ID() })
	case m.Method == "notifications/cancelled" && l.endListen(m):
	default:
		l.notify(m)
	}
	return false
}

// endListen ends a stateless call that the server itself takes back.
func (l *Link) endListen(m *jsonrpc.Message) bool {
	c, sink := l.call(m.Bytes(m.Param("requestId")))
	if c == nil || c.Client != nil || !l.forget(c) {
		return false
	}
	sink.Deliver(nil, true)
	return true
}

// call finds the call that a number written by the server means; without one
// the sink leads nowhere.
func (l *Link) call(raw []byte) (*Call, mcphttp.Sink) {
	id, _ := strconv.ParseInt(string(jsonrpc.BareID(raw)), 10, 64) // there is no call 0
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.calls[id]; c != nil {
		return c, c.Sink
	}
	return nil, nowhere{}
}

// respond hands an answer to whoever waits for it, if anybody does.
func (l *Link) respond(m *jsonrpc.Message) bool {
	c, sink := l.call(m.ID())
	if c == nil && m.IsError() && string(m.ID()) == "null" {
		l.skip(m.Raw, errors.New("an error without an id")) // of what, nobody can know
	}
	if c == nil || !l.forget(c) {
		return false
	}
	raw := jsonrpc.Splice(m.Raw, jsonrpc.Edit{At: m.IDSpan(), New: c.Message.ID()},
		jsonrpc.Edit{At: m.Find(m.Result(), "_meta", subscriptionKey), New: c.Message.ID()})
	sink.Deliver(bounded(c, c.rewrite(raw)), true)
	return true
}

// rewrite lets whoever made the call change its answer.
func (c *Call) rewrite(raw []byte) []byte {
	if c.Rewrite == nil {
		return raw
	}
	m, err := jsonrpc.Parse(raw)
	if err != nil {
		return raw
	}
	return c.Rewrite(m)
}

// toCall delivers a notification that names its call at a span.
func (l *Link) toCall(m *jsonrpc.Message, at jsonrpc.Span, original func(*Call) []byte) {
	if c, sink := l.call(m.Bytes(at)); c != nil && len(original(c)) > 0 { // which nobody asked for otherwise
		sink.Deliver(jsonrpc.Splice(m.Raw, jsonrpc.Edit{At: at, New: original(c)}), false)
	}
}

// ask hands a request of the server to the client that it concerns. Where that
// cannot be known for sure it is refused, never guessed.
func (l *Link) ask(m *jsonrpc.Message) {
	l.mu.Lock()
	client := l.concerned()
	if client != nil && client.Supports(m.Method) && len(l.asked) < maxAsked && len(m.ID()) <= maxID {
		l.asked[string(m.ID())] = client
	} else {
		client = nil
	}
	l.mu.Unlock()
	switch {
	case client != nil:
		client.Push(m, l.near(client))
	case m.Method == "ping":
		l.conn.Send(upstream.Outgoing{Raw: jsonrpc.Answer(m.ID(), []byte("{}"))})
	default:
		l.conn.Send(upstream.Outgoing{Raw: jsonrpc.Fault(m.ID(), jsonrpc.MethodNotFound, "no client here can answer %s",
			m.Method)})
	}
}

// concerned is the only client there ever was, or else the only one with a
// running call. Needs mu.
func (l *Link) concerned() (client Client) {
	if l.ever == 1 {
		for client = range l.clients {
		}
	}
	for _, c := range l.calls {
		switch {
		case c.own:
		case c.Client == nil || client != nil && client != c.Client:
			return nil
		default:
			client = c.Client
		}
	}
	return client
}

// notify delivers a notification that names no call.
func (l *Link) notify(m *jsonrpc.Message) {
	if m.Method == "notifications/tools/list_changed" && l.opt.Changed != nil {
		l.opt.Changed()
	}
	audience := l.audience(m)
	for _, to := range audience {
		to.Push(m, l.near(to))
	}
	if m.Method != "notifications/message" {
		return
	}
	if sink := l.logger(); sink != nil {
		sink.Deliver(m.Raw, false)
	} else if len(audience) == 0 && l.opt.Log != nil { // it may belong to any client, so it is the owner's
		data := m.Bytes(m.Param("data"))
		level := m.Text(m.Param("level"))
		l.says.Say(func(omitted int) {
			l.opt.Log.Info("the server says", "level", level[:min(len(level), 20)], "data",
				string(data[:min(len(data), 1000)]), "omitted", omitted)
		})
	}
}

func (l *Link) audience(m *jsonrpc.Message) (list []Client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	uri := m.Text(m.Param("uri"))
	for c := range l.clients {
		switch {
		case l.ever == 1,
			strings.HasSuffix(m.Method, "/list_changed"),
			m.Method == "notifications/resources/updated" && l.subs[uri][c]:
			list = append(list, c)
		case m.Method == "notifications/cancelled" && l.asked[string(m.Bytes(m.Param("requestId")))] == c:
			list = append(list, c)
		}
	}
	return list
}

// near is the sink of a client's newest running call, or nil.
func (l *Link) near(client Client) mcphttp.Sink {
	l.mu.Lock()
	defer l.mu.Unlock()
	var near mcphttp.Sink
	newest := int64(0)
	for id, c := range l.calls {
		if c.Client == client && id > newest && !c.canceled {
			near, newest = c.Sink, id
		}
	}
	return near
}

// logger is the only running call, if it is a stateless one that asked for
// logs. With two of them a line could belong to either, and reaches neither.
func (l *Link) logger() (found mcphttp.Sink) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		switch {
		case c.own, c.Message.Method == "subscriptions/listen":
		case found != nil, c.Client != nil, !c.Message.Param("_meta", logLevelKey).Present():
			return nil
		default:
			found = c.Sink
		}
	}
	return found
}

// end fails every call once.
func (l *Link) end(reason error) {
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return
	}
	l.err = reason
	calls := l.calls
	l.calls = map[int64]*Call{}
	l.mu.Unlock()
	l.opt.Ended(l, reason) // before anybody is told, who would try again
	for _, c := range calls {
		if c.timer != nil {
			c.timer.Stop()
		}
		c.Sink.Deliver(jsonrpc.Fault(c.Message.ID(), jsonrpc.Unavailable, "the call was lost: %v", reason), true)
	}
}

// Package mux multiplexes the messages of one or many clients over one
// connection to an MCP server. Ids and progress tokens are exchanged on the
// way, so clients with equal ids never meet; all other bytes stay as they are.
package mux

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sallyport-dev/sallyport/hub/upstream"
	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
	"github.com/sallyport-dev/sallyport/internal/mcphttp"
)

// linger is how long a canceled call is remembered for what the server may
// still say about it.
const linger = 10 * time.Second

// Subscriptions that are remembered: how many, and of what length. Beyond it,
// a server that is shared has nobody to send its updates to.
const maxSubs, maxURI = 10000, 4096

// The server's own requests that wait for an answer: how many, and how long an id
// may be. It is kept until the client answers or leaves.
const maxAsked, maxID = 1000, 1024

// Client is one session of a client. Its methods must not block.
type Client interface {
	// Push hands over a request or notification of the server that belongs to
	// no particular call. near is the newest running call's sink, or nil.
	Push(m *jsonrpc.Message, near mcphttp.Sink)
	// Supports reports whether the client answers requests of this method.
	Supports(method string) bool
}

// Options belong to a link for its whole life.
type Options struct {
	Log *slog.Logger
	// Ended is called once, when the connection is over.
	Ended func(l *Link, reason error)
	// Changed is called when the server says that its tools changed.
	Changed func()
	// Expired is called after a call of a client ran into its deadline.
	Expired func()
}

// Call is one request on its way.
type Call struct {
	Message *jsonrpc.Message
	Client  Client // nil for the stateless era and for the hub's own calls
	Sink    mcphttp.Sink
	Header  http.Header   // MCP headers for servers behind HTTP
	Timeout time.Duration // the deadline, which progress does not extend; 0: none
	// Rewrite may replace the response, whose id is the client's own again.
	Rewrite func(*jsonrpc.Message) []byte

	id       int64
	noise    int64 // lines that were no messages before it
	own      bool  // the hub's
	canceled bool
	timer    *time.Timer
}

// Link is a live connection.
type Link struct {
	conn  upstream.Conn
	opt   Options
	done  chan struct{}
	noise atomic.Int64     // lines that were not JSON
	says  upstream.Chatter // for the log; read's alone

	mu      sync.Mutex
	next    int64
	calls   map[int64]*Call
	asked   map[string]Client // the server's own requests by id
	clients map[Client]bool
	ever    int // clients that were ever attached
	subs    map[string]map[Client]bool
	active  time.Time
	err     error
	retired bool // it takes no further call
}

// New starts to read conn.
func New(conn upstream.Conn, opt Options) *Link {
	l := &Link{conn: conn, opt: opt, done: make(chan struct{}), active: time.Now(),
		calls: map[int64]*Call{}, asked: map[string]Client{}, clients: map[Client]bool{},
		subs: map[string]map[Client]bool{}}
	go l.read()
	return l
}

// Start sends a call. Without an error its sink gets exactly one final
// delivery.
func (l *Link) Start(c *Call) error {
	l.mu.Lock()
	if err := l.over(); err != nil {
		l.mu.Unlock()
		return err
	}
	if l.keepSubscription(c) {
		l.mu.Unlock()
		c.Sink.Deliver(jsonrpc.Answer(c.Message.ID(), json.RawMessage("{}")), true)
		return nil
	}
	l.attach(c)
	l.next++
	c.id, c.noise, l.active = l.next, l.noise.Load(), time.Now()
	l.calls[c.id] = c
	if c.Timeout > 0 {
		c.timer = time.AfterFunc(c.Timeout, func() { l.expire(c) })
	}
	number := strconv.AppendInt(nil, c.id, 10)
	raw := jsonrpc.Splice(c.Message.Raw, jsonrpc.Edit{At: c.Message.IDSpan(), New: number},
		jsonrpc.Edit{At: c.Message.Param("_meta", "progressToken"), New: number})
	l.mu.Unlock()
	if err := l.conn.Send(upstream.Outgoing{Raw: raw, Header: c.Header}); err != nil {
		if l.forget(c) && !c.canceled { // else its deadline came first, which its client was told
			return err
		}
	}
	return nil
}

func (l *Link) attach(c *Call) {
	if c.Client != nil && !l.clients[c.Client] {
		l.clients[c.Client] = true
		l.ever++
	}
	if c.Client == nil && !c.own && c.Message.Method != "initialize" {
		l.ever += 2 // stateless calls come from anybody
	}
}

// keepSubscription tracks who subscribed to what on a shared link. It reports
// true when the server must not hear of an unsubscribe, since others remain.
func (l *Link) keepSubscription(c *Call) bool {
	if c.Client == nil {
		return false
	}
	uri := c.Message.Text(c.Message.Param("uri"))
	switch c.Message.Method {
	case "resources/subscribe":
		if l.subs[uri] == nil && len(l.subs) < maxSubs && len(uri) <= maxURI {
			l.subs[uri] = map[Client]bool{}
		}
		if l.subs[uri] != nil {
			l.subs[uri][c.Client] = true
		}
	case "resources/unsubscribe":
		delete(l.subs[uri], c.Client)
		if len(l.subs[uri]) > 0 {
			return true
		}
		delete(l.subs, uri)
	}
	return false
}

// forget takes a call out and reports whether it was still there.
func (l *Link) forget(c *Call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, there := l.calls[c.id]
	delete(l.calls, c.id)
	if c.timer != nil {
		c.timer.Stop()
	}
	return there
}

// Cancel tells the server that nobody waits for c any more.
func (l *Link) Cancel(c *Call, reason string) {
	text, _ := json.Marshal(reason)
	l.cancel(c, fmt.Appendf(nil,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":%s}}`, c.id, text))
}

func (l *Link) cancel(c *Call, notice []byte) {
	l.mu.Lock()
	_, there := l.calls[c.id]
	if !there || c.canceled {
		l.mu.Unlock()
		return
	}
	c.canceled = true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.timer = time.AfterFunc(linger, func() {
		if l.forget(c) {
			c.Sink.Deliver(nil, true)
		}
	})
	l.mu.Unlock()
	l.conn.Send(upstream.Outgoing{Raw: notice})
}

// expire ends a call whose deadline passed.
func (l *Link) expire(c *Call) {
	sink := c.Sink
	l.mu.Lock()
	if _, there := l.calls[c.id]; !there || c.canceled {
		l.mu.Unlock()
		return
	}
	c.Sink = nowhere{}
	l.mu.Unlock()
	l.Cancel(c, "deadline passed")
	if l.opt.Expired != nil {
		l.opt.Expired()
	}
	more := ""
	if n := l.noise.Load() - c.noise; n > 0 {
		more = fmt.Sprintf("; meanwhile %d lines of the server were no messages (see the hub's log)", n)
	}
	sink.Deliver(c.rewrite(jsonrpc.Fault(c.Message.ID(), jsonrpc.TimedOut,
		"the call did not end within %v (MCP_CALL_TIMEOUT) and was canceled%s", c.Timeout, more)), true)
}

// Forward sends a client's notification.
func (l *Link) Forward(client Client, m *jsonrpc.Message) {
	if m.Method != "notifications/cancelled" {
		l.conn.Send(upstream.Outgoing{Raw: m.Raw})
		return
	}
	at := m.Param("requestId")
	for _, c := range l.callsOf(client) {
		if bytes.Equal(c.Message.ID(), m.Bytes(at)) {
			l.cancel(c, jsonrpc.Splice(m.Raw, jsonrpc.Edit{At: at, New: strconv.AppendInt(nil, c.id, 10)}))
		}
	}
}

func (l *Link) callsOf(client Client) (list []*Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		if c.Client == client {
			list = append(list, c)
		}
	}
	return list
}

// Answer sends a client's response, if the server asked this very client.
func (l *Link) Answer(client Client, m *jsonrpc.Message) {
	l.mu.Lock()
	asked := l.asked[string(m.ID())] == client
	if asked {
		delete(l.asked, string(m.ID()))
	}
	l.mu.Unlock()
	if asked {
		l.conn.Send(upstream.Outgoing{Raw: m.Raw})
	}
}

// Detach cancels what a client left behind and forgets it.
func (l *Link) Detach(client Client) {
	for _, c := range l.callsOf(client) {
		l.Cancel(c, "client gone")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.clients, client)
	maps.DeleteFunc(l.subs, func(_ string, who map[Client]bool) bool {
		delete(who, client)
		return len(who) == 0
	})
	maps.DeleteFunc(l.asked, func(_ string, who Client) bool { return who == client })
}

// Do makes a call of the hub's own and waits for the answer.
func (l *Link) Do(ctx context.Context, m *jsonrpc.Message, header http.Header) (*jsonrpc.Message, error) {
	reply := make(replies, 1)
	c := &Call{Message: m, Sink: reply, Header: header, own: true}
	if err := l.Start(c); err != nil {
		return nil, err
	}
	select {
	case raw := <-reply:
		if err := l.Err(); err != nil {
			return nil, err
		}
		return jsonrpc.Parse(raw)
	case <-ctx.Done():
		l.Cancel(c, "deadline passed")
		return nil, ctx.Err()
	}
}

type replies chan []byte

func (r replies) Deliver(raw []byte, final bool) {
	if final {
		r <- raw
	}
}

type nowhere struct{}

func (nowhere) Deliver([]byte, bool) {}

package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
)

// noticeTimeout bounds the delivery of a message that wants no answer.
const noticeTimeout = 30 * time.Second

// streamable speaks MCP's streamable HTTP, in every era, to a remote server.
type streamable struct {
	*remote
	greeting sync.Mutex // held while hands are shaken again
	mu       sync.Mutex
	at       string // where the server is
	session  string
	version  string
	hello    *jsonrpc.Message                   // the initialize that opened the session
	ready    *jsonrpc.Message                   // the client's notifications/initialized
	hush     func()                             // ends the listening of before
	calls    map[string]func() (stateless bool) // end a running request, by id
}

// HTTP dials a remote streamable HTTP server. Nothing is sent before the first
// message.
func HTTP(r Remote) Dial {
	return func(context.Context) (Conn, error) {
		c := &streamable{remote: newRemote(r), at: r.URL, calls: map[string]func() bool{}}
		c.work.Go(c.deliver)
		return c, nil
	}
}

// deliver sends in order: what wants no answer is waited for, so that nothing
// overtakes notifications/initialized.
func (c *streamable) deliver() {
	for {
		select {
		case <-c.ctx.Done():
			return
		case m := <-c.out:
			msg, err := jsonrpc.Parse(m.Raw)
			if err != nil || c.canceled(msg) {
				continue
			}
			if msg.IsRequest() {
				c.work.Go(func() { c.post(m, msg) })
			} else if c.post(m, msg); msg.Method == "notifications/initialized" {
				c.mu.Lock()
				c.ready = msg
				c.mu.Unlock()
				c.work.Go(c.listen)
			}
		}
	}
}

// cancelGrace is how long a server may take to end a canceled request itself.
var cancelGrace = 15 * time.Second

// canceled ends a request of the stateless era by closing its stream, which is
// how that era cancels. Others are closed once the server had time to hear of
// it: nobody reads the answer, and streams must not pile up.
func (c *streamable) canceled(m *jsonrpc.Message) bool {
	if m.Method != "notifications/cancelled" {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	end, ok := c.calls[string(m.Bytes(m.Param("requestId")))]
	return ok && end()
}

func (c *streamable) post(m Outgoing, msg *jsonrpc.Message) {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	if !msg.IsRequest() {
		defer time.AfterFunc(noticeTimeout, cancel).Stop()
	}
	if msg.IsRequest() {
		defer c.track(string(msg.ID()), func() bool {
			if m.Header == nil {
				time.AfterFunc(cancelGrace, cancel)
				return false
			}
			cancel()
			return true
		})()
	}
	if err := c.deliverOne(ctx, cancel, m, msg); err != nil {
		c.fault(m.Raw, unwrap(err))
	}
}

// deliverOne sends a message and reads what comes back. A session that the
// server has forgotten is initialised again, and the message, which was not run,
// sent once more.
func (c *streamable) deliverOne(ctx context.Context, leave func(), m Outgoing, msg *jsonrpc.Message) error {
	for again := false; ; again = true {
		c.mu.Lock()
		session := c.session
		c.mu.Unlock()
		resp, err := c.send(ctx, m)
		if err != nil {
			return err
		}
		if m.Header == nil && !again && msg.IsRequest() && msg.Method != "initialize" &&
			c.forgotten(ctx, resp.StatusCode, session) {
			resp.Body.Close()
			if err := c.greet(ctx, session); err != nil {
				return err
			}
			continue
		}
		if err = c.follow(resp, msg, again); err == nil {
			err = c.answer(ctx, leave, resp, msg)
		}
		resp.Body.Close()
		if err != errFollow {
			return err
		}
	}
}

// errFollow asks for the message to be sent again, to the address that is known
// by now.
var errFollow = errors.New("moved")

// follow goes where a redirect within the origin leads, for a message that
// changes nothing; others end with the address that the entry should have.
func (c *streamable) follow(resp *http.Response, msg *jsonrpc.Message, again bool) error {
	base := c.address()
	to, err := moved(resp, base)
	switch {
	case err != nil || to == "":
		return err
	case again || msg.Method != "initialize" && msg.Method != "server/discover":
		return errMoved(base, to)
	}
	c.mu.Lock()
	c.at = to
	c.mu.Unlock()
	return errFollow
}

func (c *streamable) address() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// send posts one message.
func (c *streamable) send(ctx context.Context, m Outgoing) (*http.Response, error) {
	req, err := c.request(ctx, http.MethodPost, c.address(), bytes.NewReader(m.Raw))
	if err != nil {
		return nil, err
	}
	c.head(req, m.Header)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	return c.client.Do(req)
}

func (c *streamable) track(id string, end func() bool) (done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[id] = end
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.calls, id)
	}
}

// head sets the headers of the session, or those of a stateless request.
func (c *streamable) head(req *http.Request, modern http.Header) {
	for name, values := range modern {
		req.Header[name] = values
	}
	if modern != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
	}
	if c.version != "" {
		req.Header.Set("Mcp-Protocol-Version", c.version)
	}
}

// answer reads what came back for msg. An error means that the request still
// lacks an answer.
func (c *streamable) answer(ctx context.Context, leave func(), resp *http.Response, msg *jsonrpc.Message) error {
	if isEvents(resp) && resp.StatusCode == http.StatusOK {
		return c.stream(ctx, leave, resp, msg)
	}
	var room share
	defer room.done()
	body, err := io.ReadAll(io.LimitReader(room.within(resp.Body), MaxLine+1))
	if err != nil || len(body) > MaxLine {
		return errors.Join(err, errors.New("the answer is incomplete or longer than 16 MiB"))
	}
	reply, err := parse(body)
	switch {
	case err == nil && reply.IsResponse() && msg.IsRequest() && (sameID(reply.ID(), msg.ID()) || reply.IsError()):
		c.learn(resp, msg, reply)
		// An error may come without the id, and whoever asked waits for it.
		return c.push(jsonrpc.Splice(reply.Raw, jsonrpc.Edit{At: reply.IDSpan(), New: msg.ID()}))
	case resp.StatusCode >= 300:
		return httpError(resp)
	case msg.IsRequest():
		return errors.New("the remote server sent no JSON-RPC answer")
	}
	return nil
}

// stream reads the events that answer msg. A server that does not end them after the
// answer, as it should, is left: its streams must not pile up.
func (c *streamable) stream(ctx context.Context, leave func(), resp *http.Response, msg *jsonrpc.Message) error {
	var at position
	var err error
	answered := false
	late := time.AfterFunc(math.MaxInt64, leave)
	defer late.Stop()
	read := func(r io.Reader) bool {
		err = readEvents(r, &at, func(e event) error {
			if m, err := parse([]byte(e.data)); err == nil && m.IsResponse() && sameID(m.ID(), msg.ID()) {
				c.learn(resp, msg, m)
				answered = true
				late.Reset(cancelGrace)
			}
			return c.push([]byte(e.data))
		})
		return answered
	}
	if read(resp.Body) || msg.IsRequest() && c.resume(ctx, &at, read) {
		return nil
	}
	return errors.Join(errors.New("the stream ended before the answer"), err)
}

// learn keeps what initialize agreed on.
func (c *streamable) learn(resp *http.Response, msg, reply *jsonrpc.Message) {
	if msg.Method != "initialize" || reply.IsError() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hello, c.session = msg, resp.Header.Get("Mcp-Session-Id")
	c.version = reply.Text(reply.Find(reply.Result(), "protocolVersion"))
}

// listen keeps the stream open on which the server speaks unasked. A server
// without one answers 405. A session's stream takes the place of the one before.
func (c *streamable) listen() {
	var at position
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	c.mu.Lock()
	before := c.hush
	c.hush = cancel
	c.mu.Unlock()
	if before != nil {
		before()
	}
	for wait := time.Second; ctx.Err() == nil; wait = min(2*wait, time.Minute) {
		req, err := c.request(ctx, http.MethodGet, c.address(), nil)
		if err != nil {
			return
		}
		c.head(req, nil)
		req.Header.Set("Accept", "text/event-stream")
		if at.last != "" {
			req.Header.Set("Last-Event-ID", at.last)
		}
		if resp, err := c.client.Do(req); err == nil {
			if !isEvents(resp) || resp.StatusCode != http.StatusOK {
				resp.Body.Close()
				return
			}
			readEvents(resp.Body, &at, func(e event) error {
				wait = time.Second
				return c.push([]byte(e.data))
			})
			resp.Body.Close()
		}
		pause(ctx, wait)
	}
}

// Close implements Conn and ends the session at the server.
func (c *streamable) Close() error {
	c.shut()
	c.mu.Lock()
	known := c.session != ""
	c.mu.Unlock()
	if !known {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	req, err := c.request(ctx, http.MethodDelete, c.address(), nil)
	if err != nil {
		return err
	}
	c.head(req, nil)
	if resp, err := c.client.Do(req); err == nil {
		resp.Body.Close()
	}
	c.client.CloseIdleConnections()
	return nil
}

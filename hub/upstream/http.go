package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
	mu      sync.Mutex
	session string
	version string
	calls   map[string]func() (stateless bool) // end a running request, by id
}

// HTTP dials a remote streamable HTTP server. Nothing is sent before the first
// message.
func HTTP(r Remote) Dial {
	return func(context.Context) (Conn, error) {
		c := &streamable{remote: newRemote(r), calls: map[string]func() bool{}}
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
	req, err := c.request(ctx, http.MethodPost, c.URL, bytes.NewReader(m.Raw))
	if err != nil {
		c.fault(m.Raw, err)
		return
	}
	c.head(req, m.Header)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := c.client.Do(req)
	if err != nil {
		c.fault(m.Raw, unwrap(err))
		return
	}
	defer resp.Body.Close()
	if err := c.answer(resp, msg); err != nil {
		c.fault(m.Raw, err)
	}
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
func (c *streamable) answer(resp *http.Response, msg *jsonrpc.Message) error {
	if isEvents(resp) && resp.StatusCode == http.StatusOK {
		return c.stream(resp, msg)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxLine+1))
	if err != nil || len(body) > MaxLine {
		return errors.Join(err, errors.New("the answer is incomplete or longer than 16 MiB"))
	}
	c.mu.Lock()
	lost := resp.StatusCode == http.StatusNotFound && c.session != ""
	c.mu.Unlock()
	if lost && msg.Method != "initialize" {
		c.stop(fmt.Errorf("%w: the remote server has forgotten the session", ErrRenewed))
	}
	reply, err := jsonrpc.Parse(body)
	switch {
	case err == nil && reply.IsResponse() && msg.IsRequest() && (string(reply.ID()) == string(msg.ID()) || reply.IsError()):
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

func (c *streamable) stream(resp *http.Response, msg *jsonrpc.Message) error {
	answered := false
	err := readEvents(resp.Body, func(e event) error {
		if m, err := jsonrpc.Parse([]byte(e.data)); err == nil && m.IsResponse() && string(m.ID()) == string(msg.ID()) {
			c.learn(resp, msg, m)
			answered = true
		}
		return c.push([]byte(e.data))
	})
	if answered {
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
	c.session = resp.Header.Get("Mcp-Session-Id")
	c.version = reply.Text(reply.Find(reply.Result(), "protocolVersion"))
}

// listen keeps the stream open on which the server speaks unasked. A server
// without one answers 405.
func (c *streamable) listen() {
	last := ""
	for wait := time.Second; c.ctx.Err() == nil; wait = min(2*wait, time.Minute) {
		req, err := c.request(c.ctx, http.MethodGet, c.URL, nil)
		if err != nil {
			return
		}
		c.head(req, nil)
		req.Header.Set("Accept", "text/event-stream")
		if last != "" {
			req.Header.Set("Last-Event-ID", last)
		}
		if resp, err := c.client.Do(req); err == nil {
			if !isEvents(resp) || resp.StatusCode != http.StatusOK {
				resp.Body.Close()
				return
			}
			readEvents(resp.Body, func(e event) error {
				if wait = time.Second; e.id != "" {
					last = e.id
				}
				return c.push([]byte(e.data))
			})
			resp.Body.Close()
		}
		c.pause(wait)
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
	req, err := c.request(ctx, http.MethodDelete, c.URL, nil)
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

package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
)

// overloaded are the statuses that say nothing about a session: the server, or a proxy
// before it, has no room or is away.
var overloaded = []int{http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway,
	http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// forgotten reports that the server does not know session any more. The specification
// wants 404 for that (MCP 2025-11-25, transports, Session Management); servers say 400,
// 401, 403, 410, 422 or 500, and refuse a ping in it in the same way as the call.
func (c *streamable) forgotten(ctx context.Context, status int, session string) bool {
	if session == "" || status < 400 || slices.Contains(overloaded, status) {
		return false
	}
	if status == http.StatusNotFound {
		return true
	}
	resp, err := c.send(ctx, Outgoing{Raw: jsonrpc.Request(`"sallyport-ping"`, "ping", []byte("{}"))})
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == status
}

// greet repeats the handshake with the client's own initialize, once for all calls that
// met the loss of the session lost.
func (c *streamable) greet(ctx context.Context, lost string) error {
	c.greeting.Lock()
	defer c.greeting.Unlock()
	c.mu.Lock()
	hello, ready, again := c.hello, c.ready, c.session != lost
	if !again {
		c.session, c.version = "", ""
	}
	c.mu.Unlock()
	if again {
		return nil
	}
	if hello == nil {
		return errors.New("the remote server has forgotten the session, which was never initialised")
	}
	resp, err := c.send(ctx, Outgoing{Raw: hello.Raw})
	if err == nil {
		defer resp.Body.Close()
		err = c.learnFrom(resp, hello)
	}
	if err != nil {
		c.mu.Lock()
		c.session = lost // so that the next call tries again
		c.mu.Unlock()
		return fmt.Errorf("the remote server has forgotten the session, and refuses a new initialize: %w", unwrap(err))
	}
	if ready != nil {
		if resp, err := c.send(ctx, Outgoing{Raw: ready.Raw}); err == nil {
			resp.Body.Close()
		}
		c.work.Go(c.listen)
	}
	// It may be another program by now.
	return c.push(jsonrpc.Notification("notifications/tools/list_changed", []byte("{}")))
}

// learnFrom reads the answer to initialize out of a response.
func (c *streamable) learnFrom(resp *http.Response, hello *jsonrpc.Message) error {
	found := errors.New("found")
	take := func(raw []byte) error {
		m, err := parse(raw)
		if err != nil || !m.IsResponse() || !sameID(m.ID(), hello.ID()) || m.IsError() {
			return err
		}
		c.learn(resp, hello, m)
		return found
	}
	var err error
	if isEvents(resp) && resp.StatusCode == http.StatusOK {
		err = readEvents(resp.Body, &position{}, func(e event) error { return take([]byte(e.data)) })
	} else {
		var body []byte
		var room share
		defer room.done()
		if body, err = io.ReadAll(io.LimitReader(room.within(resp.Body), MaxLine)); err == nil {
			err = take(body)
		}
	}
	if err == found {
		return nil
	}
	return errors.Join(httpError(resp), err)
}

// resume takes a stream up that ended before the answer (MCP 2025-11-25,
// transports, Resumability and Redelivery), as long as the server lets it.
func (c *streamable) resume(ctx context.Context, at *position, read func(io.Reader) (answered bool)) bool {
	for ctx.Err() == nil && at.last != "" {
		pause(ctx, max(at.retry, resumeWait))
		req, err := c.request(ctx, http.MethodGet, c.address(), nil)
		if err != nil {
			return false
		}
		c.head(req, nil)
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set("Last-Event-ID", at.last)
		resp, err := c.client.Do(req)
		if err != nil {
			continue
		}
		ok := isEvents(resp) && resp.StatusCode == http.StatusOK
		answered := ok && read(resp.Body)
		resp.Body.Close()
		if !ok || answered {
			return answered
		}
	}
	return false
}

// resumeWait is the shortest pause before a stream is taken up again.
const resumeWait = 100 * time.Millisecond

// sameID reports that a server means id.
func sameID(said, id []byte) bool { return bytes.Equal(jsonrpc.BareID(said), bytes.Trim(id, `"`)) }

// parse reads a message, after one byte order mark that some servers put before
// it.
func parse(raw []byte) (*jsonrpc.Message, error) {
	return jsonrpc.Parse(bytes.TrimPrefix(raw, byteOrderMark))
}

// moved is where a redirect leads, or "". An address on another origin is an
// error: the entry's headers would go there.
func moved(resp *http.Response, base string) (string, error) {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return "", nil
	}
	to := resp.Header.Get("Location")
	at, err := resolve(base, to)
	if err != nil {
		return "", fmt.Errorf("the remote server redirects to another origin (%s): write the right address into the "+
			"entry", shown(base, to))
	}
	return at, nil
}

// errMoved says where the entry should point.
func errMoved(base, to string) error {
	return fmt.Errorf("the remote server redirects: write %s into the entry's url", shown(base, to))
}

// shown is an address without what may be secret in it.
func shown(base, ref string) string {
	b, err := url.Parse(base)
	if err == nil {
		b, err = b.Parse(ref)
	}
	if err != nil {
		return "an address that cannot be read"
	}
	return b.Scheme + "://" + b.Host + b.EscapedPath()
}

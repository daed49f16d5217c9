package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
)

// backlog is how many messages may wait in a connection to a remote server.
const backlog = 256

// Remote is a server that others run, reached over HTTP.
type Remote struct {
	URL    string
	Header map[string]string // sent with every request
}

// remote is what both HTTP transports have in common.
type remote struct {
	Remote
	client *http.Client
	ctx    context.Context // ends with the connection
	stop   context.CancelCauseFunc
	in     chan []byte
	out    chan Outgoing
	work   sync.WaitGroup
}

func newRemote(r Remote) *remote {
	c := &remote{Remote: r, in: make(chan []byte, 16), out: make(chan Outgoing, backlog)}
	c.ctx, c.stop = context.WithCancelCause(context.Background())
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 4
	transport.MaxResponseHeaderBytes = 64 << 10 // its session's id is kept
	c.client = &http.Client{Transport: transport, CheckRedirect: stay}
	return c
}

// stay follows no redirect, which would carry the headers elsewhere: see moved.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Send implements Conn.
func (c *remote) Send(m Outgoing) error {
	select {
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	case c.out <- m:
		return nil
	default:
		c.stop(ErrBacklog)
		return ErrBacklog
	}
}

// Receive implements Conn. What came before the end is received before it.
func (c *remote) Receive() ([]byte, error) {
	select {
	case raw := <-c.in:
		return raw, nil
	case <-c.ctx.Done():
	}
	select {
	case raw := <-c.in:
		return raw, nil
	default:
		return nil, context.Cause(c.ctx)
	}
}

// push hands a message to Receive.
func (c *remote) push(raw []byte) error {
	select {
	case c.in <- raw:
		return nil
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
}

// shut ends everything and waits for it.
func (c *remote) shut() {
	c.stop(ErrClosed)
	c.work.Wait()
	c.client.CloseIdleConnections()
}

// request builds a request with the entry's headers.
func (c *remote) request(ctx context.Context, method, address string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, errors.New("the url is not valid")
	}
	for name, value := range c.Header {
		req.Header.Set(name, value)
	}
	return req, nil
}

// fault answers the request raw in the server's stead, if it is a request. One
// that already fails to shake hands was not reached.
func (c *remote) fault(raw []byte, err error) {
	m, bad := jsonrpc.Parse(raw)
	switch {
	case bad != nil || !m.IsRequest():
	case m.Method == "initialize":
		c.stop(fmt.Errorf("%w: %w", ErrUnreachable, err))
	default:
		c.push(jsonrpc.Fault(m.ID(), jsonrpc.Unavailable, "%v", err))
	}
}

// unwrap removes the address from an error, for it may hold a secret.
func unwrap(err error) error {
	var at *url.Error
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// httpError says what a status means to the owner.
func httpError(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("the remote server answered %s: check the entry's headers", resp.Status)
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return fmt.Errorf("the remote server answered %s: check the entry's url and type", resp.Status)
	}
	return fmt.Errorf("the remote server answered %s", resp.Status)
}

func isEvents(resp *http.Response) bool {
	return strings.HasPrefix(strings.ToLower(resp.Header.Get("Content-Type")), "text/event-stream")
}

// pause waits, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

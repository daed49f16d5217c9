package ownersock

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/sallyport-dev/sallyport/internal/desk"
	"github.com/sallyport-dev/sallyport/internal/keysocket"
)

// A Client is one connection to an owner's socket. It is not for several
// goroutines at once.
type Client struct {
	conn *net.UnixConn
	in   *bufio.Reader
}

// ErrDown means that no server listens on a socket.
var ErrDown = errors.New("no server listens there")

// How often Dial tries a busy server, and after what time again.
const (
	tries         = 40
	tryAgainAfter = 50 * time.Millisecond
)

// Dial connects to the socket and proves the key in keyFile. The error says
// what to do.
func Dial(ctx context.Context, path, keyFile string) (*Client, error) {
	key, err := keysocket.ReadKey(keyFile)
	if err != nil {
		return nil, err
	}
	c, err := keysocket.Dial(ctx, path, key)
	// Commands that can connect may keep the socket busy: one try in a while gets through.
	for try := 1; try < tries && (errors.Is(err, keysocket.ErrBusy) || errors.Is(err, syscall.EAGAIN)); try++ {
		time.Sleep(tryAgainAfter)
		c, err = keysocket.Dial(ctx, path, key)
	}
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%s: %w: is it running, with MCP_OWNER_SOCKET?", path, ErrDown)
	case err != nil:
		return nil, err
	}
	return &Client{c, bufio.NewReaderSize(c, 64<<10)}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Do sends one request and stores its result in result, which may be nil.
func (c *Client) Do(r Request, result any) error {
	reply, err := c.send(r)
	if err != nil {
		return err
	}
	if result == nil || len(reply.Result) == 0 {
		return nil
	}
	return json.Unmarshal(reply.Result, result)
}

// RefusedError is the server's answer to a request that it did not carry out.
type RefusedError string

// Error is what the server said.
func (e RefusedError) Error() string { return string(e) }

func (c *Client) send(r Request) (Reply, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return Reply{}, err
	}
	if _, err := c.conn.Write(append(line, '\n')); err != nil {
		return Reply{}, fmt.Errorf("the server is gone: %w", err)
	}
	return c.read()
}

func (c *Client) read() (reply Reply, err error) {
	line, err := c.line()
	if err != nil {
		return reply, fmt.Errorf("the server is gone: %w", err)
	}
	if err := json.Unmarshal(line, &reply); err != nil {
		return reply, fmt.Errorf("the server's answer: %w", err)
	}
	if reply.Error != "" {
		return reply, RefusedError(reply.Error)
	}
	return reply, nil
}

// line reads one line of at most maxReply bytes.
func (c *Client) line() ([]byte, error) {
	var b strings.Builder
	for {
		part, err := c.in.ReadSlice('\n')
		b.Write(part)
		switch {
		case err == nil:
			return []byte(b.String()), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case b.Len() > maxReply:
			return nil, io.ErrShortBuffer
		}
	}
}

// Events calls each with what happens from now on, until ctx or the server
// ends; ready, which may be nil, is called once the server listens.
func (c *Client) Events(ctx context.Context, ready func(), each func(desk.Event)) error {
	defer context.AfterFunc(ctx, func() { c.conn.Close() })()
	_, err := c.send(Request{Op: OpEvents})
	if err == nil && ready != nil {
		ready()
	}
	for err == nil {
		var reply Reply
		if reply, err = c.read(); err == nil && reply.Event != nil {
			each(*reply.Event)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

package egresswire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/sallyport-dev/sallyport/internal/keysocket"
)

// maxCarried bounds the connections of one command that are carried at once.
// It is more than egress allows, so that egress refuses the next one with a message;
// what goes beyond waits in the listener's queue.
const maxCarried = 160

// busyBound is how long a connection waits for a busy egress: longer than
// strangers without the key can hold a place there.
const busyBound = 8 * time.Second

// Down is the verdict of a Refusal that egress did not make itself.
const Down = "egress_down"

// A Client knows where egress is.
type Client struct {
	Socket string // EGRESS_SOCKET
	Key    keysocket.Key
}

// Ask sends a Check.
func (c *Client) Ask(ctx context.Context, check Check) (reply Reply, err error) {
	conn, err := c.hello(ctx, Hello{Check: &check})
	if err != nil {
		return reply, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	if err = Read(bufio.NewReader(conn), &reply); err == nil && reply.Error != "" {
		err = errors.New(reply.Error)
	}
	return reply, err
}

// tellBound is how long a Past may take to be said.
const tellBound = 2 * time.Second

// Tell sends p. An egress that cannot be reached does not hear of it.
func (c *Client) Tell(p Past) {
	ctx, cancel := context.WithTimeout(context.Background(), tellBound)
	defer cancel()
	if conn, err := c.hello(ctx, Hello{Past: &p}); err == nil {
		conn.Close()
	}
}

func (c *Client) hello(ctx context.Context, h Hello) (*net.UnixConn, error) {
	conn, err := keysocket.Dial(ctx, c.Socket, c.Key)
	pause, end := time.Millisecond, time.Now().Add(busyBound)
	for errors.Is(err, keysocket.ErrBusy) && time.Now().Before(end) && ctx.Err() == nil {
		time.Sleep(pause) // many commands at once
		pause = min(2*pause, 250*time.Millisecond)
		conn, err = keysocket.Dial(ctx, c.Socket, c.Key)
	}
	if err != nil {
		return nil, err
	}
	if err := Write(conn, h); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// A Way is the way out of one command: it carries the connections to a listener
// that only the command can reach to egress, and does not look into them.
type Way struct {
	client  *Client
	command Command
	told    func(Refusal)
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	lease  *net.UnixConn
	ticket string
}

// Open serves l until Close. told is called, and must not block, with each
// connection that was refused. egress is asked for nothing before the first
// connection.
func (c *Client) Open(l net.Listener, command Command, told func(Refusal)) *Way {
	w := &Way{client: c, command: command, told: told}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.running.Go(func() { w.accept(l) })
	context.AfterFunc(w.ctx, func() { l.Close() })
	return w
}

// Close ends the listener and every connection, and returns when they are
// gone.
func (w *Way) Close() {
	w.cancel()
	w.mu.Lock()
	if w.lease != nil {
		w.lease.Close()
	}
	w.mu.Unlock()
	w.running.Wait()
}

func (w *Way) accept(l net.Listener) {
	places := make(chan struct{}, maxCarried)
	for {
		places <- struct{}{}
		c, err := l.Accept()
		if w.ctx.Err() != nil {
			if err == nil {
				c.Close()
			}
			return
		}
		if err != nil { // out of descriptors: wait for some
			<-places
			time.Sleep(50 * time.Millisecond)
			continue
		}
		w.running.Go(func() {
			defer func() { <-places }()
			defer c.Close()
			w.carry(c)
		})
	}
}

// carry joins one connection with egress.
func (w *Way) carry(c net.Conn) {
	defer context.AfterFunc(w.ctx, func() { c.Close() })()
	up, err := w.connect()
	if err != nil {
		w.down(c, err)
		return
	}
	defer up.Close()
	defer context.AfterFunc(w.ctx, func() { up.Close() })()
	var back sync.WaitGroup
	back.Go(func() {
		io.Copy(c, up)
		closeWrite(c)
	})
	io.Copy(up, c)
	up.CloseWrite()
	back.Wait()
}

func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
}

// connect opens one connection of the command at egress.
func (w *Way) connect() (*net.UnixConn, error) {
	ticket, err := w.begin()
	if err != nil {
		return nil, err
	}
	return w.client.hello(w.ctx, Hello{Ticket: ticket})
}

// begin returns the ticket of the command's lease, and opens it where there is
// none: at the first connection, and after egress was started again.
func (w *Way) begin() (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lease != nil {
		return w.ticket, nil
	}
	conn, err := w.client.hello(w.ctx, Hello{Command: &w.command})
	if err != nil {
		return "", err
	}
	var reply Reply
	r := bufio.NewReader(conn)
	conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	defer context.AfterFunc(w.ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })() // an egress that hangs
	if err = Read(r, &reply); err == nil && reply.Error != "" {
		err = &answered{reply.Error}
	}
	if err == nil {
		err = errors.Join(conn.SetReadDeadline(time.Time{}), w.ctx.Err())
	}
	if err != nil {
		conn.Close()
		return "", err
	}
	w.lease, w.ticket = conn, reply.Ticket
	w.running.Go(func() { w.listen(conn, r) })
	return w.ticket, nil
}

// answered is an error that egress gave as its answer.
type answered struct{ said string }

func (e *answered) Error() string { return e.said }

// listen passes on what egress refuses, until the lease ends.
func (w *Way) listen(conn *net.UnixConn, r *bufio.Reader) {
	for {
		var refusal Refusal
		if Read(r, &refusal) != nil {
			break
		}
		w.told(refusal)
	}
	conn.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lease == conn {
		w.lease = nil
	}
}

// down answers a connection that egress did not take.
func (w *Way) down(c net.Conn, err error) {
	if w.ctx.Err() != nil {
		return
	}
	say := "egress, the way to the allowed hosts, cannot be reached. Retrying does not help before its owner has " +
		"started it again."
	var told *answered
	if errors.As(err, &told) {
		say = "egress does not serve this command: " + strings.Join(strings.Fields(told.Error()), " ") + "."
	}
	if errors.Is(err, keysocket.ErrBusy) {
		say = "egress, the way to the allowed hosts, serves too many connections at this moment. Try again later, " +
			"with fewer at once."
	}
	if errors.Is(err, keysocket.ErrRefused) {
		say = "egress does not accept this server's key. Tell the owner that MCP_EGRESS_KEY_FILE and EGRESS_KEY_FILE " +
			"differ."
	}
	w.told(Refusal{Verdict: Down, Say: say})
	c.SetDeadline(time.Now().Add(time.Second))
	fmt.Fprintf(c, "HTTP/1.1 502 egress: %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: "+
		"close\r\n\r\n%s\n", say, len(say)+1, say)
	closeWrite(c)
	io.CopyN(io.Discard, c, 1<<20)
}

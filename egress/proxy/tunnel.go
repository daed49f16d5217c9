package proxy

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sallyport-dev/sallyport/egress/decision"
	"github.com/sallyport-dev/sallyport/egress/sni"
	"github.com/sallyport-dev/sallyport/internal/egressrule"
)

// tunnel answers a CONNECT and passes bytes once the client has said, in TLS,
// the name that it was allowed. Nothing is sent to the other side before.
func (x *exchange) tunnel(h head, up *net.TCPConn) error {
	if _, err := io.WriteString(x.client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return err
	}
	x.client.SetReadDeadline(time.Now().Add(x.server.Limits.Head))
	hello, err := readHello(x.in, h.target)
	if err != nil {
		return err
	}
	x.client.SetReadDeadline(time.Time{})
	if err := x.ctx.Err(); err != nil { // asked after that: the end of ctx sets a deadline
		return err
	}
	w := x.watch()
	defer w.stop()
	return x.pass(w, up, hello)
}

// readHello reads the first message of a TLS client, which must name the host of t.
func readHello(r io.Reader, t egressrule.Target) (hello []byte, err error) {
	name, hello, err := sni.Read(r)
	switch {
	case errors.Is(err, sni.ErrNotTLS):
		return nil, decision.Refuse(decision.NoTLS, "The connection to %s was closed: its first bytes were no TLS "+
			"handshake. Through CONNECT egress passes TLS only; clear text needs a rule http://NAME.", t)
	case err != nil:
		return nil, err
	case !strings.EqualFold(name, t.Name):
		return nil, decision.Refuse(decision.SNIMismatch,
			"The connection to %s was closed: its TLS handshake names %s. "+
				"The name in TLS (SNI) must be the one that was connected to.", t, orNone(name))
	}
	return hello, nil
}

func orNone(name string) string {
	if name == "" {
		return "no host"
	}
	return printable(cut(name))
}

// settle is how long a client may take to end whose host has reset the connection, also
// on a busy machine: one that ends later is told, and recorded, as a failure.
const settle = 250 * time.Millisecond

// pass copies both ways until both sides have ended, or one has failed. That the
// client has gone, or its command ended, is no failure: programs close with bytes of
// the other side unread. Nor is a host that ended and was told something after that,
// or one that answers the client's end with a reset.
func (x *exchange) pass(w *watch, up *net.TCPConn, first []byte) error {
	var back error
	var both sync.WaitGroup
	client, ended := x.counted(w, x.client, &x.received), make(chan struct{})
	both.Go(func() {
		if _, back = io.Copy(client, up); closed(back) {
			select {
			case <-ended: // by itself, before it is told
				back = nil
			case <-time.After(settle):
			}
		}
		x.client.CloseWrite()
	})
	host := x.counted(w, up, &x.sent)
	_, err := host.Write(first)
	if err == nil {
		_, err = io.Copy(host, onlyReader{x.in})
	}
	up.CloseWrite()
	if err == nil {
		close(ended)
	}
	if err != nil && host.failed == nil { // nobody waits for the rest
		up.SetReadDeadline(time.Unix(1, 0))
	}
	both.Wait()
	switch {
	case x.lease.ctx.Err() != nil, closed(client.failed), closed(err) && (host.failed == nil || back == nil):
		return nil
	case err != nil:
		return err
	}
	return back
}

// closed says that the other end of a connection was closed.
func closed(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// onlyReader hides WriteTo, which would read from the socket past the counter.
type onlyReader struct{ io.Reader }

// A watch ends an exchange that has been idle.
type watch struct {
	timer *time.Timer
	idle  time.Duration
}

func (x *exchange) watch() *watch {
	idle := x.server.Limits.Idle
	return &watch{idle: idle, timer: time.AfterFunc(idle, func() {
		x.stop(decision.Refuse(decision.TimedOut, "The connection to %s was closed: no byte for %v.", x.record.Target,
			idle))
	})}
}

func (w *watch) stop() { w.timer.Stop() }

// counted is a writer that counts for the record and against the limit.
type counted struct {
	x     *exchange
	w     io.Writer
	n     *atomic.Int64
	watch *watch

	failed error // of a write
}

func (x *exchange) counted(w *watch, to io.Writer, n *atomic.Int64) *counted {
	return &counted{x: x, w: to, n: n, watch: w}
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	if c.n.Add(int64(n)); err != nil {
		c.failed = err
	}
	c.watch.timer.Reset(c.watch.idle)
	if s := c.x.server; err == nil && c.x.lease.bytes.Add(int64(n)) > s.Limits.Bytes {
		r := s.tooMuch()
		c.x.stop(r)
		return n, r
	}
	return n, err
}

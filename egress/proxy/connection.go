package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sallyport-dev/sallyport/egress/decision"
	"github.com/sallyport-dev/sallyport/egress/dial"
	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/egresswire"
)

// An exchange is one connection of a command.
type exchange struct {
	server *Server
	lease  *lease
	ctx    context.Context
	client *net.UnixConn
	in     *bufio.Reader // from the client
	record Connection
	begun  *audit.Pending

	answered bool // with a refusal

	sent, received atomic.Int64
	stop           func(*decision.Refusal) // ends the exchange early, for the first reason given
	why            atomic.Pointer[decision.Refusal]
}

// connection serves one connection of l to its end.
func (s *Server) connection(l *lease, c *net.UnixConn, in *bufio.Reader) {
	refusal, recorded := s.take(l)
	x := &exchange{server: s, lease: l, client: c, in: in, record: Connection{Command: l.command}}
	defer x.linger()
	if refusal != nil {
		x.refuse(refusal, recorded)
		return
	}
	defer s.give(l)
	ctx, cancel := context.WithTimeout(l.ctx, s.Limits.Life)
	defer cancel()
	x.ctx = ctx
	x.stop = func(r *decision.Refusal) {
		x.why.CompareAndSwap(nil, r)
		cancel()
	}
	stopped := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	defer stopped()
	h, err := x.head()
	x.record.Target, x.record.Asked = h.target, cut(h.asked)
	if err != nil {
		x.refuse(refusalOf(err), true)
		return
	}
	private, refusal := decision.Decide(h.target, l.command.Principal, l.granted, s.Ceiling, s.place())
	if refusal == nil {
		refusal = s.mayConnect(l)
	}
	if refusal != nil {
		x.refuse(refusal, true)
		return
	}
	x.admitted(h, private)
}

// head reads the request's head, within its time.
func (x *exchange) head() (head, error) {
	x.client.SetReadDeadline(time.Now().Add(x.server.Limits.Head))
	h, err := readHead(x.in)
	if err == nil {
		err = errors.Join(x.client.SetReadDeadline(time.Time{}), x.ctx.Err()) // in this order: the end of ctx sets one
	}
	return h, err
}

// admitted serves a request that both lists allow.
func (x *exchange) admitted(h head, private bool) {
	var err error
	if x.begun, err = x.server.Audit.Begin(x.record.call()); err != nil {
		r := decision.Refuse(decision.Failed, "egress cannot write its audit, so nothing is sent. Tell the owner to "+
			"look at its log.")
		x.tell(r)
		x.answer(r)
		return
	}
	err = x.reach(h, private)
	x.end(err)
}

// reach dials and passes bytes.
func (x *exchange) reach(h head, private bool) error {
	up, err := dial.Dial(x.ctx, h.target, private)
	if err != nil {
		x.answer(refusalOf(err))
		return err
	}
	defer up.Close()
	defer context.AfterFunc(x.ctx, func() { up.SetDeadline(time.Unix(1, 0)) })()
	x.record.Address = up.RemoteAddr().String()
	if h.target.Clear {
		return x.forward(h, up)
	}
	return x.tunnel(h, up)
}

// end writes the record of an admitted connection.
func (x *exchange) end(err error) {
	x.record.Verdict = decision.OK
	if r := x.why.Load(); r != nil {
		err = r
	}
	if err != nil {
		r := refusalOf(err)
		x.record.Verdict = r.Verdict
		x.tell(r)
	}
	x.record.Sent, x.record.Received = x.sent.Load(), x.received.Load()
	x.begun.End(x.record.outcome())
}

// refuse answers a connection that was not admitted, and records or counts it.
func (x *exchange) refuse(r *decision.Refusal, recorded bool) {
	if recorded {
		x.tell(r)
	}
	if recorded && x.server.mayRecord(x.lease) {
		x.server.Audit.Refused(x.record.call(), string(r.Verdict))
	} else {
		x.lease.count()
	}
	x.answer(r)
}

// tell puts a refusal into the command's result.
func (x *exchange) tell(r *decision.Refusal) {
	say := egresswire.Refusal{Verdict: string(r.Verdict), Rule: r.Rule, Say: r.Say}
	if say.Target = x.record.Target.String(); x.record.Target.Name == "" {
		say.Target = x.record.Asked
	}
	x.lease.tell(say)
}

// answer sends a refusal as an answer of HTTP. Most programs show the reason
// phrase of a refused CONNECT and nothing else, so it holds the sentence too.
func (x *exchange) answer(r *decision.Refusal) {
	status := map[decision.Verdict]int{
		decision.BadRequest: http.StatusBadRequest, decision.BadName: http.StatusBadRequest,
		decision.TooMany: http.StatusTooManyRequests, decision.TooMuch: http.StatusTooManyRequests,
		decision.Unresolvable: http.StatusBadGateway, decision.Unreachable: http.StatusBadGateway,
		decision.TimedOut: http.StatusRequestTimeout, decision.Failed: http.StatusServiceUnavailable,
	}[r.Verdict]
	if status == 0 {
		status = http.StatusForbidden
	}
	say := printable(r.Say)
	x.client.SetWriteDeadline(time.Now().Add(helloBound))
	fmt.Fprintf(x.client, "HTTP/1.1 %d egress: %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n"+
		"X-Sallyport-Verdict: %s\r\nConnection: close\r\n\r\n%s\n", status, say, len(say)+1, r.Verdict, say)
	x.client.CloseWrite()
	x.answered = true
}

// linger waits until a client that was answered has closed: closed with unread
// bytes, a socket loses the answer. The connection counts no more.
func (x *exchange) linger() {
	if x.answered {
		x.client.SetReadDeadline(time.Now().Add(time.Second))
		io.CopyN(io.Discard, x.in, 1<<20)
	}
}

// printable keeps a client's own words from ending a line of the answer.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, s)
}

// refusalOf is err as a refusal: most are already, the rest is a connection
// that broke.
func refusalOf(err error) *decision.Refusal {
	var r *decision.Refusal
	switch {
	case errors.As(err, &r):
		return r
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return decision.Refuse(decision.TimedOut, "The connection was closed: it said nothing, or took longer than "+
			"egress allows.")
	}
	return decision.Refuse(decision.Failed, "The connection broke.")
}

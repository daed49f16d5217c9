package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/sallyport-dev/sallyport/dockerproxy/wire"
)

// maxConnections at once; a hub needs one per docker server and a few more.
const maxConnections = 256

// proxy is the state of the process.
type proxy struct {
	settings
	log    *slog.Logger
	docker *daemon

	mu     sync.Mutex
	policy *policy
	held   map[string]*lease // by server
}

// listen on the socket that the settings name. One that nobody answers on is
// what a crash left, and is replaced; anything else there is an error.
func listen(s settings) (*net.UnixListener, error) {
	info, err := os.Lstat(s.listenSocket)
	if err == nil && info.Mode().Type() != os.ModeSocket {
		return nil, fmt.Errorf("LISTEN_SOCKET %s exists and is not a socket", s.listenSocket)
	}
	if err == nil {
		c, err := net.DialTimeout("unix", s.listenSocket, time.Second)
		if err == nil {
			c.Close()
			return nil, fmt.Errorf("another process serves %s already", s.listenSocket)
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, fmt.Errorf("%s is there and cannot be replaced: %w", s.listenSocket, err)
		}
		if err := os.Remove(s.listenSocket); err != nil {
			return nil, err
		}
	}
	old := syscall.Umask(0o177) // never wider than wanted, not for an instant
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.listenSocket, Net: "unix"})
	syscall.Umask(old)
	if err == nil {
		err = os.Chmod(s.listenSocket, s.socketMode)
	}
	return listener, err
}

// accept serves connections until ctx ends, then waits for their containers.
func (p *proxy) accept(ctx context.Context, listener *net.UnixListener) error {
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	var running sync.WaitGroup
	defer running.Wait()
	places := make(chan struct{}, maxConnections)
	for {
		c, err := listener.AcceptUnix()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			p.log.Error("accept", "error", err.Error())
			time.Sleep(100 * time.Millisecond) // out of descriptors: wait for some
			continue
		}
		places <- struct{}{}
		running.Go(func() {
			defer func() { <-places }()
			defer c.Close()
			p.serve(ctx, c)
		})
	}
}

// peer returns who is on the other end, as the kernel knows it.
func peer(c *net.UnixConn) (*syscall.Ucred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var who *syscall.Ucred
	if e := raw.Control(func(fd uintptr) {
		who, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); e != nil {
		return nil, e
	}
	return who, err
}

// link is one connection of the hub.
type link struct {
	*proxy
	conn  *net.UnixConn
	in    *bufio.Reader
	lease *lease // what this connection ensured
}

func (p *proxy) serve(ctx context.Context, c *net.UnixConn) {
	l := &link{proxy: p, conn: c, in: bufio.NewReaderSize(c, wire.MaxLine)}
	who, err := peer(c)
	if err != nil || who.Uid != p.hubUID {
		l.deny(nil, fmt.Errorf("this user id is not the hub's (HUB_UID %d)", p.hubUID), "peer", who)
		return
	}
	defer context.AfterFunc(ctx, func() { c.CloseRead() })()
	defer func() {
		if l.lease != nil {
			l.end(l.lease)
		}
	}()
	for greeted := false; ; greeted = true {
		if !greeted {
			c.SetReadDeadline(time.Now().Add(10 * time.Second))
		}
		line, err := l.in.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			l.deny(nil, fmt.Errorf("a request is longer than %d bytes", wire.MaxLine))
			return
		} else if err != nil {
			return
		}
		q, err := wire.ParseRequest(line)
		if err == nil && !greeted && q.Verb != wire.VerbPolicy {
			err = errors.New("the first request must be policy")
		}
		if err != nil {
			l.deny(q, err)
			return
		}
		c.SetReadDeadline(time.Time{})
		if !l.answer(ctx, q) {
			return
		}
	}
}

// answer one request; false ends the connection, as a failed handshake does.
func (l *link) answer(ctx context.Context, q *wire.Request) bool {
	var err error
	reply := wire.Reply{OK: true}
	switch q.Verb {
	case wire.VerbPolicy:
		reply.Policy, err = l.handshake(ctx, q)
	case wire.VerbEnsure:
		err = l.ensure(ctx, q)
	case wire.VerbAttach:
		return l.attach(q)
	case wire.VerbStop:
		err = l.stopServer(ctx, q.Server)
	case wire.VerbStatus:
		reply.States, err = l.status(ctx)
	}
	if err != nil {
		return l.refuse(q, err) && q.Verb != wire.VerbPolicy
	}
	return l.reply(reply)
}

// coded is an error with the code that the reply shall have.
type coded struct {
	code string
	error
}

// refuse answers with the error; only what is denied ends the connection.
func (l *link) refuse(q *wire.Request, err error) bool {
	reply := wire.Reply{Code: wire.CodeFailed, Error: err.Error()}
	var c coded
	if errors.As(err, &c) {
		reply.Code = c.code
	}
	if reply.Code == wire.CodeDenied {
		l.deny(q, err)
		return false
	}
	l.log.Warn("refused", "verb", q.Verb, "server", q.Server, "code", reply.Code, "error", reply.Error)
	return l.reply(reply)
}

// deny logs and answers what must not happen. Everything that the hub chose is
// a JSON string in the log, so it cannot begin a line of its own.
func (l *link) deny(q *wire.Request, err error, more ...any) {
	if q != nil {
		more = append(more, "verb", fmt.Sprintf("%.20s", q.Verb), "server", fmt.Sprintf("%.70s", q.Server))
	}
	l.log.Warn("DENY", append(more, "reason", fmt.Sprintf("%.1000s", err.Error()))...)
	l.reply(wire.Reply{Code: wire.CodeDenied, Error: err.Error()})
}

// reply writes one line within wire.MaxLine, since a hub refuses a longer one: a
// reply that would exceed it loses its informational maps.
func (l *link) reply(r wire.Reply) bool {
	r.Error = fmt.Sprintf("%.4000s", r.Error)
	line, err := json.Marshal(r)
	if r.Policy != nil && len(line) >= wire.MaxLine {
		r.Policy.Servers, r.Policy.Broken = nil, nil
		line, err = json.Marshal(r)
	}
	if err != nil {
		return false
	}
	l.conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
	_, err = l.conn.Write(append(line, '\n'))
	l.conn.SetWriteDeadline(time.Time{})
	return err == nil
}

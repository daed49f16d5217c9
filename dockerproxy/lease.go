package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync/atomic"
	"time"

	"github.com/sallyport-dev/sallyport/dockerproxy/container"
	"github.com/sallyport-dev/sallyport/dockerproxy/wire"
	"github.com/sallyport-dev/sallyport/internal/mcpjson"
)

// lease is a server's container in the hands of one connection. The claim
// comes first and goes last, so a server never has two.
type lease struct {
	entry   *mcpjson.Entry
	secrets string // fingerprint of what the container was made with
	id      string
	ctx     context.Context // cancelled to end it; its cause is the reason
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed when the claim is free again
	redact  func(error) error
	stream  bool        // attached
	closing atomic.Bool // the hub has closed the server's stdin
}

// ended is why a lease was cancelled, in the words of wire.End.
type ended string

func (e ended) Error() string { return string(e) }

// claim the server; the lease that holds it already, if any, is returned.
func (p *proxy) claim(server string, s *lease) *lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	if holder := p.held[server]; holder != nil {
		return holder
	}
	if s == nil { // nobody's: for removing a leftover
		s = &lease{done: make(chan struct{})}
		s.ctx, s.cancel = context.WithCancelCause(context.Background())
		s.cancel(ended(wire.EndStopped))
	}
	p.held[server] = s
	return nil
}

func (p *proxy) release(server string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.held[server].done)
	delete(p.held, server)
}

// claimSoon waits for a holder that is ending, and for a moment in case its
// hub has just gone.
func (p *proxy) claimSoon(ctx context.Context, server string, s *lease) error {
	for moment := time.After(time.Second); ; {
		holder := p.claim(server, s)
		if holder == nil {
			return nil
		}
		select {
		case <-holder.done:
		case <-ctx.Done():
			return ctx.Err()
		case <-moment:
			if holder.ctx.Err() == nil && !holder.closing.Load() {
				return coded{wire.CodeBusy, fmt.Errorf("another connection holds %s", server)}
			}
			moment = nil
		}
	}
}

// handshake tells the hub what the proxy allows.
func (l *link) handshake(ctx context.Context, q *wire.Request) (*wire.Policy, error) {
	if q.Version != wire.Version {
		return nil, coded{wire.CodeVersion, fmt.Errorf("the hub speaks version %d, this proxy %d: run the two at the "+
			"same release", q.Version, wire.Version)}
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if err := l.docker.negotiate(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	answer := &wire.Policy{Version: wire.Version, Instance: l.instance, APIVersion: l.docker.api(),
		Servers: map[string]string{}, Broken: map[string]string{}}
	for name, e := range l.policy.config.Servers {
		if e.Type == mcpjson.Docker {
			answer.Servers[name] = e.Hash
		}
	}
	for name, err := range l.policy.config.Broken {
		answer.Broken[name] = err.Error()
	}
	return answer, nil
}

// ensure claims the server and makes its container.
func (l *link) ensure(ctx context.Context, q *wire.Request) error {
	if l.lease != nil {
		return coded{wire.CodeDenied, fmt.Errorf("this connection has ensured %s already", l.lease.entry.Name)}
	}
	l.mu.Lock()
	e := l.policy.config.Servers[q.Server]
	broken := l.policy.config.Broken[q.Server]
	l.mu.Unlock()
	switch {
	case broken != nil:
		return coded{wire.CodeDenied, fmt.Errorf("%s is broken in the configuration: %w", q.Server, broken)}
	case e == nil || e.Type != mcpjson.Docker:
		return coded{wire.CodeDenied, fmt.Errorf("%s is not a docker server in the configuration that the proxy sees",
			q.Server)}
	case e.Hash != q.Hash:
		return coded{wire.CodeStale, fmt.Errorf("hub and proxy know different versions of %s: both read mcp.json "+
			"again within seconds", q.Server)}
	case !maps.EqualFunc(e.Env, q.Env, func(_, _ string) bool { return true }):
		return coded{wire.CodeDenied, fmt.Errorf("env must hold a value for each env key of %s and nothing else",
			q.Server)}
	}
	s := &lease{entry: e, done: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	wait, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if err := l.claimSoon(wait, q.Server, s); err != nil {
		return err
	}
	err := l.whileThere(s, func() error { return l.fill(s, q.Env) })
	if err == nil {
		l.lease = s
		// Told to end before it is attached, there is only this connection.
		context.AfterFunc(s.ctx, func() { l.conn.CloseRead() })
		return nil
	}
	err = s.failure(err)
	l.end(s)
	return err
}

// failure is err, unless the lease was told to end: then the hub shall try
// again at once.
func (s *lease) failure(err error) error {
	var cause ended
	if errors.As(context.Cause(s.ctx), &cause) {
		return coded{wire.CodeStale, cause}
	}
	return err
}

// whileThere works for a hub that waits. One that goes away ends the lease,
// so that a pull, which may take minutes, does not keep the claim.
func (l *link) whileThere(s *lease, work func() error) error {
	awake := make(chan struct{})
	go func() {
		defer close(awake)
		if _, err := l.in.Peek(1); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			s.cancel(ended(wire.EndStopped))
		}
	}()
	err := work()
	l.conn.SetReadDeadline(time.Now())
	<-awake
	l.conn.SetReadDeadline(time.Time{})
	return err
}

// fill makes the container of a claimed lease.
func (l *link) fill(s *lease, env map[string]string) error {
	l.mu.Lock() // reload compares after it: a change is seen here or there
	set, err := l.currentSecrets(s.entry)
	if e := l.policy.config.Servers[s.entry.Name]; e == nil || e.Hash != s.entry.Hash { // it waited for its claim
		err = coded{wire.CodeStale, ended(wire.EndConfig)}
	}
	if err == nil {
		s.secrets = set.print
	}
	l.mu.Unlock()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.ctx, pullTime+callTime)
	defer cancel()
	s.redact = func(err error) error { return redact(err, env, set.values) }
	s.id, err = l.create(ctx, s.entry, env, set.values)
	return s.redact(err)
}

// end removes the lease's container and frees the claim. It runs also when
// everything else has been cancelled.
func (p *proxy) end(s *lease) {
	s.cancel(ended(wire.EndStopped))
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	if s.id != "" {
		if err := p.stop(ctx, s.id, s.entry.Name); err != nil {
			p.log.Error("removing", "server", s.entry.Name, "container", s.id, "error", err.Error())
		}
	}
	p.release(s.entry.Name)
}

// stopServer ends the server's lease, or removes what is left of one.
func (p *proxy) stopServer(ctx context.Context, server string) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	for {
		holder := p.claim(server, nil)
		if holder == nil {
			break
		}
		holder.cancel(ended(wire.EndStopped))
		select {
		case <-holder.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer p.release(server)
	return p.remove(ctx, container.Name(server, p.instance), server)
}

func (p *proxy) status(ctx context.Context) (map[string]wire.State, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	all, err := p.owned(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	for server, state := range all {
		state.Attached = p.held[server] != nil && p.held[server].stream
		all[server] = state
	}
	return all, err
}

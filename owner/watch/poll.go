package watch

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/sallyport-dev/sallyport/internal/approval"
	"github.com/sallyport-dev/sallyport/internal/desk"
	"github.com/sallyport-dev/sallyport/internal/ownersock"
	"github.com/sallyport-dev/sallyport/internal/session"
	"github.com/sallyport-dev/sallyport/owner/approve"
)

// seen is what one server says, or why it says nothing.
type seen struct {
	path     string
	err      error
	status   ownersock.Status
	waiting  []approval.Waiting
	running  []desk.Entry
	sessions []session.Info
	servers  []ownersock.Upstream
	output   ownersock.Output
	outputOf string
	said     string // what became of an act
}

// act is what a key asks for.
type act struct {
	quit    bool
	path    string // the server; "" is all
	request ownersock.Request
	watch   string // the id of the command whose output is wanted from now on
}

// poll asks every server again and again, and carries out what comes over acts.
func poll(ctx context.Context, s approve.Sockets) (<-chan seen, chan<- act) {
	out, in := make(chan seen), make(chan act)
	var each []chan act
	for _, path := range s.Paths {
		mine := make(chan act, 8)
		each = append(each, mine)
		go pollOne(ctx, s, path, out, mine)
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case a := <-in:
				for _, c := range each {
					select {
					case c <- a:
					default: // it is down and has enough to do when it is back
					}
				}
			}
		}
	}()
	return out, in
}

func pollOne(ctx context.Context, s approve.Sockets, path string, out chan<- seen, acts <-chan act) {
	var c *ownersock.Client
	watched, said := "", ""
	for {
		v := seen{path: path}
		if c == nil {
			c, v.err = s.Connect(ctx, path)
		}
		if v.err == nil {
			v.err = v.ask(c, watched)
		}
		if v.err != nil && c != nil {
			_ = c.Close()
			c = nil
		}
		v.said = said
		select {
		case out <- v:
		case <-ctx.Done():
			return
		}
		said = ""
		select {
		case a := <-acts:
			if a.watch != "" || a.request.Op == ownersock.OpOutput {
				watched = a.watch
			} else if c != nil && (a.path == "" || a.path == path) {
				said = carry(c, a.request)
			}
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return
		}
	}
}

// carry carries one request out and says what became of it.
func carry(c *ownersock.Client, r ownersock.Request) string {
	if err := c.Do(r, nil); err != nil {
		return err.Error()
	}
	switch {
	case r.Op == ownersock.OpDecide && r.Approve:
		return "approved " + r.ID + " (" + r.For + ")"
	case r.Op == ownersock.OpDecide:
		return "denied " + r.ID
	}
	return r.Op + " " + cmp.Or(r.ID, r.Principal, "everything") + ": done"
}

// ask fills v. A sandbox has no servers, and a command may be gone.
func (v *seen) ask(c *ownersock.Client, watched string) error {
	for _, q := range []struct {
		r    ownersock.Request
		into any
	}{
		{ownersock.Request{Op: ownersock.OpStatus}, &v.status},
		{ownersock.Request{Op: ownersock.OpPending}, &v.waiting},
		{ownersock.Request{Op: ownersock.OpRunning}, &v.running},
		{ownersock.Request{Op: ownersock.OpSessions}, &v.sessions},
		{ownersock.Request{Op: ownersock.OpServers}, &v.servers},
		{ownersock.Request{Op: ownersock.OpOutput, ID: watched, Bytes: 16 << 10}, &v.output},
	} {
		if q.r.Op == ownersock.OpOutput && watched == "" {
			continue
		}
		err := c.Do(q.r, q.into)
		var refused ownersock.RefusedError
		if err != nil && !errors.As(err, &refused) {
			return err
		}
		if err == nil && q.r.Op == ownersock.OpOutput {
			v.outputOf = watched
		}
	}
	return nil
}

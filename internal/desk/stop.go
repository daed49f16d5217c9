package desk

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/session"
)

// A Command is one that a call has started.
type Command interface {
	Line() string
	// Tail is the end of what it has written, at most this many bytes of each.
	Tail(bytes int) (stdout, stderr string)
	// Stop ends it and all that it started: with a grace, or now.
	Stop(now bool)
	Done() <-chan struct{}
}

// running is a command on the list. It outlasts its call if it runs in the
// background, and its end for a while, so that its output can be read.
type running struct {
	entry   Entry
	command Command
}

func (r *running) ended() bool {
	select {
	case <-r.command.Done():
		return true
	default:
		return false
	}
}

// keepEnded is how many commands that have ended are kept for their output.
const keepEnded = 16

// Runs puts a command on the list, under the id of the call that ctx belongs
// to.
func Runs(ctx context.Context, c Command) {
	t := From(ctx)
	if t == nil {
		return
	}
	d := t.desk
	d.mu.Lock()
	defer d.mu.Unlock()
	e := t.entry()
	e.State, e.Command, e.Started = "background", c.Line(), time.Now()
	d.commands = append(d.commands, &running{e, c})
	ended := 0
	for _, r := range slices.Backward(d.commands) {
		if r.ended() {
			if ended++; ended > keepEnded {
				d.commands = slices.DeleteFunc(d.commands, func(other *running) bool { return other == r })
			}
		}
	}
}

// find returns the command with this id. d.mu is held.
func (d *Desk) find(id string) *running {
	for _, r := range d.commands {
		if r.entry.ID == id {
			return r
		}
	}
	return nil
}

// Output returns the end of what the command has written, and whether it runs.
func (d *Desk) Output(id string, bytes int) (stdout, stderr string, runs bool, err error) {
	d.mu.Lock()
	r := d.find(id)
	d.mu.Unlock()
	if r == nil {
		return "", "", false, fmt.Errorf("there is no command %q; \"sallyport ps\" lists those that run", id)
	}
	stdout, stderr = r.command.Tail(bytes)
	return stdout, stderr, !r.ended(), nil
}

// Stop ends the call, command or session with this id. With now, a command
// gets no time to end by itself.
func (d *Desk) Stop(id string, now bool) error {
	d.mu.Lock()
	t, r := d.tickets[id], d.find(id)
	d.mu.Unlock()
	call := audit.Call{}
	switch {
	case t != nil:
		call = t.call.Call
		t.cancel(ErrStopped)
	case r != nil && !r.ended():
		call = audit.Call{Principal: r.entry.Principal, Session: r.entry.Session, Tool: r.entry.Tool,
			Request: r.entry.Request}
	case d.sessions != nil && d.stopSession(id, now):
		call.Session = id
	default:
		return fmt.Errorf("nothing runs under %q; \"sallyport ps\" and \"sallyport sessions\" list what does", id)
	}
	if r != nil {
		r.command.Stop(now)
	}
	d.recorded("stopped", call, map[string]string{"id": id, "now": fmt.Sprint(now)})
	d.publish(Event{Kind: "stopped", ID: id, Principal: call.Principal, Tool: call.Tool})
	return nil
}

// The calls of a session that is stopped have this long to end, and their answers that
// long to leave, before it is closed; a client whose stream ends hears nothing more.
const (
	endsWithin = 3 * time.Second
	toAnswer   = 100 * time.Millisecond
)

// stopSession ends the calls of a session, then the session.
func (d *Desk) stopSession(id string, now bool) bool {
	if !slices.ContainsFunc(d.sessions.List(), func(s session.Info) bool { return s.Name == id }) {
		return false
	}
	d.mu.Lock()
	var calls []*Ticket
	for _, t := range d.tickets {
		if t.call.Session == id {
			calls = append(calls, t)
		}
	}
	for _, r := range d.commands {
		if now && d.tickets[r.entry.ID] != nil && r.entry.Session == id {
			defer r.command.Stop(true)
		}
	}
	d.mu.Unlock()
	for _, t := range calls {
		t.cancel(ErrStopped)
	}
	go func() {
		bound, cancel := context.WithTimeout(context.Background(), endsWithin)
		defer cancel()
		for _, t := range calls {
			select {
			case <-t.gone:
			case <-bound.Done():
			}
		}
		time.Sleep(toAnswer)
		d.sessions.Drop(id)
	}()
	return true
}

// Pause refuses new calls, of principal only unless it is "", until Resume.
// What runs goes on.
func (d *Desk) Pause(principal, reason string) {
	d.mu.Lock()
	d.paused[principal] = reason
	d.mu.Unlock()
	d.recorded("paused", audit.Call{Principal: principal}, map[string]string{"reason": reason})
	d.publish(Event{Kind: "paused", Principal: principal})
}

// Resume ends a pause. It is an error if there is none.
func (d *Desk) Resume(principal string) error {
	d.mu.Lock()
	_, ok := d.paused[principal]
	delete(d.paused, principal)
	d.mu.Unlock()
	if !ok {
		return fmt.Errorf("%s not paused", map[bool]string{true: "everything as a whole is", false: principal +
			" is"}[principal == ""])
	}
	d.recorded("resumed", audit.Call{Principal: principal}, nil)
	d.publish(Event{Kind: "resumed", Principal: principal})
	return nil
}

// Paused lists who is paused, and why; "" is everybody.
func (d *Desk) Paused() map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.paused)
}

func (d *Desk) refusePaused(principal string) *Refusal {
	d.mu.Lock()
	defer d.mu.Unlock()
	reason, all := d.paused[""]
	one, this := d.paused[principal]
	if !all && !this {
		return nil
	}
	text := "The owner has paused all calls: nothing was run. Do not repeat it by yourself; ask the user to resume."
	if this {
		reason = one
		text = "The owner has paused the calls of " + principal +
			": nothing was run. Do not repeat it by yourself; ask the user to resume."
	}
	if reason != "" {
		text += " Their reason: " + reason
	}
	return &Refusal{"paused", text}
}

// recorded writes what the owner did. It has happened; a record that cannot be
// written is said in the log.
func (d *Desk) recorded(name string, c audit.Call, details map[string]string) {
	if err := d.audit.Event(name, c, details, true); err != nil {
		d.log.Error("what the owner did could not be recorded", "event", name, "error", err)
	}
}

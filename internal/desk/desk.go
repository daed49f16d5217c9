// Package desk is the one place that every call of a tool passes: Admit decides
// whether it may run now and records that it begins. What runs
// and what waits is listed here, so that the owner can see, approve, pause and
// stop it; package ownersock carries that to the command line.
package desk

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sallyport-dev/sallyport/internal/approval"
	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/session"
)

// ErrStopped is why the context of a call ends that the owner has stopped.
var ErrStopped = errors.New("the owner stopped this call")

// A Desk is that of one process. All methods may be called at once.
type Desk struct {
	audit     *audit.Log
	approvals *approval.Store
	log       *slog.Logger
	started   time.Time
	sessions  *session.Table

	mu       sync.Mutex
	tickets  map[string]*Ticket
	commands []*running
	paused   map[string]string // principal, or "" for all, to the owner's reason
	counts   map[string]int64  // of verdicts
	watchers map[chan Event]struct{}

	unattended bool
}

// Unattended says, before the first call, that the owner cannot reach this desk:
// what would wait for approval is refused at once.
func (d *Desk) Unattended() { d.unattended = true }

// New makes the desk of a process. log may be nil with records nowhere.
func New(records *audit.Log, log *slog.Logger) *Desk {
	d := &Desk{audit: records, log: log, started: time.Now(), tickets: map[string]*Ticket{},
		paused: map[string]string{},
		counts: map[string]int64{}, watchers: map[chan Event]struct{}{}}
	if log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	d.approvals = approval.New(func(w approval.Waiting) {
		d.publish(Event{Kind: "waiting", ID: w.ID, Principal: w.Principal, Server: w.Server, Tool: w.Tool})
	})
	return d
}

// ShowSessions lets the owner see and end s.
func (d *Desk) ShowSessions(s *session.Table) { d.sessions = s }

// A Call is one call of a tool that its principal was granted. Session is the
// session's name (session.Name), not its id.
type Call struct {
	audit.Call
	Ask      bool                 // it waits for the owner's approval
	Progress func(seconds int)    // told every few seconds while it waits; nil if the client asked for none
	File     func() (File, error) // for a write: the file as it is; nil for other calls
}

// A File is what a write would replace.
type File struct {
	Digest  string // of the content as it is
	Preview string // what would change, for the owner
}

// A Refusal tells the client why a call does not run.
type Refusal struct {
	Verdict string // for the record, in snake_case
	Text    string
}

// Error is the text for the client.
func (r *Refusal) Error() string { return r.Text }

// Ticket is a call that was admitted, or waits to be.
type Ticket struct {
	ID      string
	desk    *Desk
	call    Call
	ctx     context.Context
	cancel  context.CancelCauseFunc
	started time.Time
	state   string // waiting or running
	pending *audit.Pending
	once    sync.Once
	gone    chan struct{} // closed when it is off the list
}

// Admit decides whether c may run, waits for the owner where it must, and
// records that it begins. The caller must not run the call if an error is
// returned, which is a *Refusal, and must End the ticket otherwise.
func (d *Desk) Admit(ctx context.Context, c Call) (*Ticket, error) {
	if refusal := d.refusePaused(c.Principal); refusal != nil {
		return nil, d.refuse(c.Call, refusal)
	}
	t := &Ticket{ID: newID(), desk: d, call: c, started: time.Now(), state: "waiting", gone: make(chan struct{})}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	d.mu.Lock()
	d.tickets[t.ID] = t
	d.mu.Unlock()
	refusal := d.approve(t)
	if refusal == nil {
		// Again, since it may have waited for minutes.
		refusal = d.refusePaused(c.Principal)
	}
	if refusal == nil {
		refusal = t.begin()
	}
	if refusal != nil {
		d.drop(t)
		return nil, d.refuse(c.Call, refusal)
	}
	return t, nil
}

func newID() string { return strings.ToLower(rand.Text()[:6]) }

// begin records the call, then lists it as running.
func (t *Ticket) begin() *Refusal {
	if context.Cause(t.ctx) == ErrStopped {
		return stopped
	}
	pending, err := t.desk.audit.Begin(t.call.Call)
	if err != nil {
		return &Refusal{"unrecordable", audit.ErrUnwritable.Error()}
	}
	t.desk.mu.Lock()
	t.pending, t.state, t.started = pending, "running", time.Now()
	t.desk.mu.Unlock()
	t.desk.publish(t.event("begin"))
	return nil
}

var stopped = &Refusal{"stopped", "The owner stopped this call while it waited for approval: nothing was run."}

// Refuse records a call that was refused before it came to Admit.
func (d *Desk) Refuse(c audit.Call, verdict string) {
	_ = d.refuse(c, &Refusal{Verdict: verdict})
}

func (d *Desk) refuse(c audit.Call, r *Refusal) error {
	d.audit.Refused(c, r.Verdict)
	d.count(r.Verdict)
	d.log.Info("call", "principal", c.Principal, "server", c.Server, "tool", c.Tool, "verdict", r.Verdict)
	d.publish(Event{Kind: "refused", Principal: c.Principal, Server: c.Server, Tool: c.Tool, Verdict: r.Verdict})
	return r
}

func (d *Desk) count(verdict string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts[verdict]++
}

func (d *Desk) drop(t *Ticket) {
	t.cancel(nil)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tickets, t.ID)
	close(t.gone)
}

// Context ends with the caller's, and with ErrStopped when the owner stops the
// call. It carries the ticket.
func (t *Ticket) Context() context.Context { return context.WithValue(t.ctx, ticketKey{}, t) }

// Caller is the principal, and its session, that made the call.
func (t *Ticket) Caller() audit.Call { return t.call.Call }

type ticketKey struct{}

// From returns the ticket of the call that ctx belongs to, or nil.
func From(ctx context.Context) *Ticket {
	t, _ := ctx.Value(ticketKey{}).(*Ticket)
	return t
}

// Stopped reports whether the owner has stopped the call.
func (t *Ticket) Stopped() bool { return t != nil && context.Cause(t.ctx) == ErrStopped }

// End records what came of the call. Only the first one counts.
func (t *Ticket) End(verdict string, resultBytes int) {
	t.once.Do(func() {
		if t.Stopped() {
			verdict = "stopped"
		}
		t.pending.End(audit.Outcome{Verdict: verdict, ResultBytes: resultBytes})
		t.desk.drop(t)
		t.desk.count(verdict)
		t.desk.log.Info("call", "principal", t.call.Principal, "server", t.call.Server, "tool", t.call.Tool,
			"verdict", verdict, "ms", time.Since(t.started).Milliseconds())
		e := t.event("end")
		e.Verdict = verdict
		t.desk.publish(e)
	})
}

func (t *Ticket) event(kind string) Event {
	return Event{Kind: kind, ID: t.ID, Principal: t.call.Principal, Server: t.call.Server, Tool: t.call.Tool}
}

// Sessions lists the open MCP sessions.
func (d *Desk) Sessions() []session.Info {
	list := []session.Info{}
	if d.sessions != nil {
		list = append(list, d.sessions.List()...)
	}
	slices.SortFunc(list, func(a, b session.Info) int {
		return strings.Compare(a.Principal+a.Name, b.Principal+b.Name)
	})
	return list
}

// Started is when the process began to serve.
func (d *Desk) Started() time.Time { return d.started }

// Audit is where the desk records.
func (d *Desk) Audit() *audit.Log { return d.audit }

// Counters are the calls since the start by verdict.
func (d *Desk) Counters() map[string]int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.counts)
}

// An Entry is a call that runs or waits, or a command that goes on without one.
type Entry struct {
	ID        string    `json:"id"`
	State     string    `json:"state"` // waiting, running, or background: a command whose call has ended
	Request   string    `json:"request,omitempty"`
	Principal string    `json:"principal"`
	Session   string    `json:"session,omitempty"`
	Server    string    `json:"server,omitempty"`
	Tool      string    `json:"tool"`
	Command   string    `json:"command,omitempty"` // the line for the shell
	Started   time.Time `json:"started"`
}

// Running lists the calls and commands, the oldest first.
func (d *Desk) Running() []Entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := []Entry{}
	for _, t := range d.tickets {
		e := t.entry()
		if r := d.find(t.ID); r != nil {
			e.Command = r.command.Line()
		}
		list = append(list, e)
	}
	for _, r := range d.commands {
		if d.tickets[r.entry.ID] == nil && !r.ended() {
			list = append(list, r.entry)
		}
	}
	slices.SortFunc(list, func(a, b Entry) int { return a.Started.Compare(b.Started) })
	return list
}

func (t *Ticket) entry() Entry {
	c := t.call
	return Entry{ID: t.ID, State: t.state, Request: c.Request, Principal: c.Principal, Session: c.Session,
		Server: c.Server, Tool: c.Tool, Started: t.started}
}

package desk_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/approval"
	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/desk"
	"github.com/sallyport-dev/sallyport/internal/session"
)

// rig is a desk with its audit.
type rig struct {
	*desk.Desk
	*testing.T
	file string
	log  *audit.Log
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, file: filepath.Join(t.TempDir(), "a", "audit.jsonl")}
	var err error
	if r.log, err = audit.Open(audit.Options{File: r.file}); err != nil {
		t.Fatal(err)
	}
	r.Desk = desk.New(r.log, nil)
	return r
}

// records closes the audit and returns "kind verdict" of each record.
func (r *rig) records() (list []string) {
	r.Helper()
	if err := r.log.Close(); err != nil {
		r.Fatal(err)
	}
	_ = audit.Lines(r.file, func(l audit.Line) bool {
		record, _ := l.Record()
		list = append(list, strings.TrimSpace(record.Kind+" "+record.Event+record.Verdict))
		return true
	})
	return list
}

func command(ask bool) desk.Call {
	return desk.Call{Ask: ask, Call: audit.Call{Principal: "token:poke", Tool: "run_command", Arguments: []byte(`{"command":"true"}`)}}
}

// admit runs Admit on its own goroutine.
func (r *rig) admit(ctx context.Context, c desk.Call) <-chan error {
	done := make(chan error, 1)
	go func() {
		t, err := r.Admit(ctx, c)
		if err == nil {
			t.End("ok", 1)
		}
		done <- err
	}()
	return done
}

// waiting returns the one request that waits, once it does.
func (r *rig) waiting() approval.Waiting {
	r.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if list := r.Waiting(); len(list) == 1 {
			return list[0]
		}
	}
	r.Fatal("nothing waits")
	panic("unreachable")
}

func (r *rig) want(err error, verdict string) {
	r.Helper()
	var refusal *desk.Refusal
	switch {
	case verdict == "" && err == nil:
	case !errors.As(err, &refusal) || refusal.Verdict != verdict:
		r.Fatalf("%v, want verdict %q", err, verdict)
	}
}

func TestApprovalIsRecorded(t *testing.T) {
	r := newRig(t)
	call := r.admit(t.Context(), command(true))
	if err := r.Decide(approval.Decision{ID: r.waiting().ID, Approve: true}); err != nil {
		t.Fatal(err)
	}
	r.want(<-call, "")
	call = r.admit(t.Context(), command(true))
	if err := r.Decide(approval.Decision{ID: r.waiting().ID, Reason: "not now"}); err != nil {
		t.Fatal(err)
	}
	err := <-call
	if r.want(err, "denied"); !strings.Contains(err.Error(), "not now") {
		t.Error(err)
	}
	want := "open, event decision, begin, end ok, event decision, refused denied"
	if got := strings.Join(r.records(), ", "); got != want {
		t.Errorf("records: %s\nwant: %s", got, want)
	}
}

// A file that has changed between question and decision is not written. The
// twin leaves it alone.
func TestChangedFileIsNotWritten(t *testing.T) {
	for _, changed := range []bool{false, true} {
		r := newRig(t)
		content := "old"
		c := command(true)
		c.File = func() (desk.File, error) { return desk.File{Digest: content, Preview: "-old\n+new"}, nil }
		call := r.admit(t.Context(), c)
		w := r.waiting()
		if w.Preview != "-old\n+new" {
			t.Errorf("preview %q", w.Preview)
		}
		if changed {
			content = "other"
		}
		if err := r.Decide(approval.Decision{ID: w.ID, Approve: true}); err != nil {
			t.Fatal(err)
		}
		r.want(<-call, map[bool]string{true: "file_changed"}[changed])
	}
}

// Pause and resume, of everybody and of one principal. What runs goes on.
func TestPause(t *testing.T) {
	r := newRig(t)
	running, err := r.Admit(t.Context(), command(false))
	if err != nil {
		t.Fatal(err)
	}
	for _, principal := range []string{"", "token:poke", "token:other"} {
		r.Pause(principal, "lunch")
		_, err := r.Admit(t.Context(), command(false))
		if principal == "token:other" {
			r.want(err, "") // twin
		} else if r.want(err, "paused"); !strings.Contains(err.Error(), "lunch") {
			t.Error(err)
		}
		if err := r.Resume(principal); err != nil {
			t.Error(err)
		}
		if err := r.Resume(principal); err == nil {
			t.Error("resumed twice")
		}
	}
	if running.Context().Err() != nil {
		t.Error("the running call was ended")
	}
}

// An approval given before a pause runs nothing during it.
func TestPauseHoldsForApprovedCalls(t *testing.T) {
	r := newRig(t)
	call := r.admit(t.Context(), command(true))
	w := r.waiting()
	r.Pause("", "")
	if err := r.Decide(approval.Decision{ID: w.ID, Approve: true}); err != nil {
		t.Fatal(err)
	}
	r.want(<-call, "paused")
}

func TestStop(t *testing.T) {
	r := newRig(t)
	running, err := r.Admit(t.Context(), command(false))
	if err != nil {
		t.Fatal(err)
	}
	c := &fakeCommand{done: make(chan struct{})}
	desk.Runs(running.Context(), c)
	waiting := r.admit(t.Context(), command(true))
	r.waiting()
	for _, e := range r.Running() {
		if err := r.Stop(e.ID, true); err != nil {
			t.Error(err)
		}
	}
	r.want(<-waiting, "stopped")
	if !running.Stopped() || !c.now {
		t.Errorf("stopped %v, its command now %v", running.Stopped(), c.now)
	}
	running.End("canceled", 0)
	if err := r.Stop(running.ID, true); err == nil {
		t.Error("stopped after its end")
	}
	if got := strings.Join(r.records(), ", "); !strings.HasSuffix(got, "end stopped") {
		t.Error(got)
	}
}

// A background command is listed, read and stopped after its call has ended.
func TestBackgroundCommand(t *testing.T) {
	r := newRig(t)
	call, err := r.Admit(t.Context(), command(false))
	if err != nil {
		t.Fatal(err)
	}
	c := &fakeCommand{done: make(chan struct{})}
	desk.Runs(call.Context(), c)
	call.End("ok", 0)
	list := r.Running()
	if len(list) != 1 || list[0].State != "background" || list[0].Command != "sleep 9" {
		t.Fatalf("%+v", list)
	}
	if out, _, runs, err := r.Output(list[0].ID, 10); out != "out" || !runs || err != nil {
		t.Error(out, runs, err)
	}
	if err := r.Stop(list[0].ID, false); err != nil || c.now || len(r.Running()) != 0 {
		t.Error(err, c.now, r.Running())
	}
	if out, _, runs, err := r.Output(list[0].ID, 10); out != "out" || runs || err != nil {
		t.Error("after its end:", out, runs, err)
	}
}

type fakeCommand struct {
	done chan struct{}
	now  bool
}

func (c *fakeCommand) Line() string              { return "sleep 9" }
func (c *fakeCommand) Tail(int) (string, string) { return "out", "" }
func (c *fakeCommand) Stop(now bool)             { c.now = now; close(c.done) }
func (c *fakeCommand) Done() <-chan struct{}     { return c.done }

// A client that goes away while its call waits leaves the question there, and
// runs nothing.
func TestClientGoesAway(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	call := r.admit(ctx, command(true))
	r.waiting()
	cancel()
	r.want(<-call, "canceled")
	if err := r.Decide(approval.Decision{ID: r.waiting().ID, Approve: true}); err != nil {
		t.Fatal(err)
	}
	r.want(<-r.admit(t.Context(), command(true)), "") // the same call again attaches
}

// Without an audit everything but the record works.
func TestWithoutAudit(t *testing.T) {
	r := &rig{T: t, Desk: desk.New(nil, nil)}
	call := r.admit(t.Context(), command(true))
	if err := r.Decide(approval.Decision{ID: r.waiting().ID, Approve: true}); err != nil {
		t.Fatal(err)
	}
	r.want(<-call, "")
}

// Events say what happens and hold no argument.
func TestEvents(t *testing.T) {
	r := newRig(t)
	events, stop := r.Watch()
	defer stop()
	call := r.admit(t.Context(), command(true))
	asked := <-events // whoever lists what waits may see it before
	if err := r.Decide(approval.Decision{ID: asked.ID, Approve: true}); asked.Kind != "waiting" || err != nil {
		t.Fatal(asked, err)
	}
	<-call
	var kinds []string
	for range 3 {
		kinds = append(kinds, (<-events).Kind)
	}
	if got := strings.Join(kinds, " "); got != "decided begin end" && got != "begin decided end" && got != "begin end decided" {
		t.Error(got)
	}
	for range 40 {
		if ch, _ := r.Watch(); ch == nil {
			return
		}
	}
	t.Error("40 watchers at once")
}

// A stopped session ends, with the calls in it and no others.
func TestStopSession(t *testing.T) {
	r := newRig(t)
	sessions := session.NewTable(10)
	r.ShowSessions(sessions)
	closed := make(chan string, 2)
	var calls []*desk.Ticket
	for _, id := range []string{"one", "two"} {
		s, err := sessions.Reserve("token:poke")
		if err != nil {
			t.Fatal(err)
		}
		s.Bind(id, func() { closed <- id })
		c := command(false)
		c.Session = session.Name(id)
		ticket, err := r.Admit(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, ticket)
	}
	if list := r.Sessions(); len(list) != 2 || list[0].Principal != "token:poke" || strings.Contains(list[0].Name+list[1].Name, "one") {
		t.Errorf("%+v", list)
	}
	if err := r.Stop(session.Name("one"), false); err != nil {
		t.Fatal(err)
	}
	if len(r.Sessions()) != 2 {
		t.Error("the session is closed before its call has answered")
	}
	calls[0].End("error", 0)
	if id := <-closed; id != "one" || !calls[0].Stopped() || calls[1].Stopped() || len(r.Sessions()) != 1 {
		t.Errorf("closed %s, stopped %v %v", id, calls[0].Stopped(), calls[1].Stopped())
	}
}

package mcphttp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/sallyport-dev/sallyport/internal/httpd"
	"github.com/sallyport-dev/sallyport/internal/identity"
	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
	"github.com/sallyport-dev/sallyport/internal/session"
)

// What may wait for its turn in one session: messages, and their bytes.
const (
	inboxSize  = 100
	inboxBytes = 16 << 20
)

// errCrowded refuses a message with an error; a dropped one would leave its sender
// waiting.
var errCrowded = errors.New("too many messages of this session wait for their turn; send this one again later")

// clientSession is one client's session, over either transport.
type clientSession struct {
	id, path  string
	principal string
	front     *Front
	place     *session.Session
	target    Session
	general   *outbox
	stream    *httpd.Stream   // of HTTP+SSE
	ctx       context.Context // of the work; ends first
	cancel    context.CancelFunc
	over      context.Context // of the streams; ends when the target has said its last word
	finish    context.CancelFunc

	mu      sync.Mutex
	inbox   []*job
	bytes   int
	working bool
}

// enterOrOpen finds the session id, or opens one where there is no id.
func (f *Front) enterOrOpen(w http.ResponseWriter, r *http.Request, path, id string, t Target) *clientSession {
	if id == "" {
		return f.open(w, r, path, t)
	}
	return f.enter(w, r, path, id)
}

// open starts a session for the request's principal, or answers why not. The
// caller must Leave its place.
func (f *Front) open(w http.ResponseWriter, r *http.Request, path string, t Target) *clientSession {
	who, _ := identity.From(r.Context())
	place, err := f.sessions.Reserve(who.Principal)
	if err != nil {
		session.Refuse(w, err)
		return nil
	}
	s := &clientSession{id: rand.Text(), path: path, principal: who.Principal, front: f, place: place,
		general: newOutbox(r.Method == http.MethodGet)}
	s.general.shelf = &f.shelf
	if r.Method == http.MethodGet {
		s.stream = httpd.StreamFrom(r.Context())
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.over, s.finish = context.WithCancel(context.Background())
	s.target = t.Open(s.push)
	f.live.Store(s.id, s) // before the client learns the id: its first POST may be quick
	place.Bind(s.id, s.close)
	f.log.Info("session opened", "path", path, "principal", who.Principal)
	return s
}

// push sends what a running call is about to where its answer will go.
func (s *clientSession) push(m *jsonrpc.Message, near Sink) {
	if near != nil && (m.IsRequest() || m.Method == "notifications/message") {
		near.Deliver(m.Raw, false)
		return
	}
	s.general.Deliver(m.Raw, false)
}

// enter finds a session of the same path and principal, or answers why not.
// The caller must Leave its place.
func (f *Front) enter(w http.ResponseWriter, r *http.Request, path, id string) *clientSession {
	who, _ := identity.From(r.Context())
	place, err := f.sessions.Enter(id, who.Principal)
	if err != nil {
		session.Refuse(w, err)
		return nil
	}
	found, ok := f.live.Load(id)
	if !ok || found.(*clientSession).path != path {
		place.Leave()
		session.Refuse(w, session.ErrUnknown)
		return nil
	}
	return found.(*clientSession)
}

// end takes the session out of the table and closes it.
func (s *clientSession) end() {
	s.place.End()
	s.close()
}

// close ends the session: its streams, and what runs for it.
func (s *clientSession) close() {
	s.front.live.Delete(s.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.ctx.Err() == nil
	if s.cancel(); first && !s.working { // else work does it
		go s.shut()
	}
}

// shut closes the target, which answers what it still owes, and then the
// streams.
func (s *clientSession) shut() {
	s.target.Close()
	s.finish()
	s.general.forget()
	s.front.log.Info("session closed", "path", s.path, "principal", s.principal)
}

// Sweep ends the sessions whose target is gone.
func (f *Front) Sweep() {
	f.live.Range(func(_, v any) bool {
		if s := v.(*clientSession); s.target.Gone() {
			s.end()
		}
		return true
	})
}

// submit queues the message that r carried, in the order of its coming. box is
// the answer's own queue, or nil where it goes out on the session's stream.
func (s *clientSession) submit(r *http.Request, m *jsonrpc.Message, sink Sink, box *outbox) error {
	who, _ := identity.From(r.Context())
	j := &job{req: Request{Message: m, Identity: who, Session: s.id, Sink: sink}, box: box}
	if box != nil {
		j.left = r.Context()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ctx.Err() != nil:
		return session.ErrUnknown
	case len(s.inbox) >= inboxSize, s.bytes > 0 && s.bytes+len(m.Raw) > inboxBytes:
		return errCrowded
	}
	s.inbox, s.bytes = append(s.inbox, j), s.bytes+len(m.Raw)
	if !s.working {
		s.working = true
		go s.work()
	}
	return nil
}

func refuseSubmit(w http.ResponseWriter, err error) {
	if err == errCrowded {
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	session.Refuse(w, err)
}

// work hands the waiting messages to the target one by one. An idle session
// has no goroutine.
func (s *clientSession) work() {
	for {
		j := s.next()
		if j == nil {
			return
		}
		j.run(s.ctx, s.target.Handle)
	}
}

// next takes a message out, or ends the work.
func (s *clientSession) next() *job {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ctx.Err() != nil:
		go s.shut()
		s.inbox = nil
		return nil
	case len(s.inbox) == 0:
		s.inbox, s.working = nil, false
		return nil
	}
	j := s.inbox[0]
	s.inbox[0] = nil
	s.inbox, s.bytes = s.inbox[1:], s.bytes-len(j.req.Message.Raw)
	return j
}

// job is one message on its way to the target.
type job struct {
	req  Request
	box  *outbox         // of its own; nil over HTTP+SSE
	left context.Context // of the HTTP request that waits for the answer; nil over HTTP+SSE
}

// room makes the stack of a new goroutine as large as most messages need. To grow step by
// step, each time copying what is on it, was a twelfth of a call's time.
//
//go:noinline
func room(n int) byte {
	var stack [12 << 10]byte
	return stack[n&1]
}

func (j *job) run(ctx context.Context, handle func(context.Context, Request) (Cancel, error)) {
	room(len(j.req.Message.Raw))
	cancel, err := safely(ctx, j.req, handle)
	if err != nil {
		if j.box != nil {
			j.box.fail(err)
		}
		if j.req.Message.IsRequest() {
			j.req.Sink.Deliver(unavailable(j.req.Message.ID(), err), true)
		}
		return
	}
	if cancel != nil && j.left != nil {
		context.AfterFunc(j.left, cancel) // after the call's end that is nothing
	}
}

// safely makes one failed call of a panic.
func safely(ctx context.Context, req Request, handle func(context.Context, Request) (Cancel, error)) (cancel Cancel,
	err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error: %v", p)
		}
	}()
	return handle(ctx, req)
}

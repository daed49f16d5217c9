package transport

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"

	"github.com/sallyport-dev/sallyport/hub/lifecycle"
	"github.com/sallyport-dev/sallyport/hub/mux"
	"github.com/sallyport-dev/sallyport/internal/identity"
	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
	"github.com/sallyport-dev/sallyport/internal/session"
)

// inboxSize is how many messages of one client may wait for their turn.
const inboxSize = 100

// clientSession is one client's session, over either transport.
type clientSession struct {
	id, path string
	front    *Front
	place    *session.Session
	target   Session
	inbox    chan *job
	general  *outbox
	ctx      context.Context
	cancel   context.CancelFunc
}

// open starts a session for the request's principal, or answers why not. The
// caller must Leave its place.
func (f *Front) open(w http.ResponseWriter, r *http.Request, path string, t Target) *clientSession {
	identity, _ := identity.From(r.Context())
	place, err := f.sessions.Reserve(identity.Principal)
	if err != nil {
		session.Refuse(w, err)
		return nil
	}
	s := &clientSession{id: rand.Text(), path: path, front: f, place: place, inbox: make(chan *job, inboxSize), general: newOutbox(r.Method == http.MethodGet)}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(r.Context()))
	s.target = t.Open(func(m *jsonrpc.Message, near mux.Sink) {
		// What a running call is about goes where its answer will go.
		if near != nil && (m.IsRequest() || m.Method == "notifications/message") {
			near.Deliver(m.Raw, false)
			return
		}
		s.general.Deliver(m.Raw, false)
	})
	f.live.Store(s.id, s)
	place.Bind(s.id, s.close)
	go s.work()
	f.log.Info("session opened", "path", path, "principal", identity.Principal)
	return s
}

// enter finds a session of the same path and principal, or answers why not.
// The caller must Leave its place.
func (f *Front) enter(w http.ResponseWriter, r *http.Request, path, id string) *clientSession {
	identity, _ := identity.From(r.Context())
	place, err := f.sessions.Enter(id, identity.Principal)
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
	s.cancel()
	s.front.live.Delete(s.id)
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

// submit queues a message in the order of its coming.
func (s *clientSession) submit(ctx context.Context, j *job) bool {
	select {
	case s.inbox <- j:
		return s.ctx.Err() == nil
	case <-s.ctx.Done():
	case <-ctx.Done():
	}
	return false
}

// work hands the messages to the target one by one.
func (s *clientSession) work() {
	for {
		select {
		case j := <-s.inbox:
			j.run(s.ctx, s.target.Handle)
		case <-s.ctx.Done():
			s.target.Close()
			return
		}
	}
}

// job is one message on its way to the target.
type job struct {
	req  lifecycle.Request
	box  *outbox         // of its own; nil over HTTP+SSE
	left context.Context // of the HTTP request that waits for the answer; nil over HTTP+SSE
}

func (j *job) run(ctx context.Context, handle func(context.Context, lifecycle.Request) (lifecycle.Cancel, error)) {
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
func safely(ctx context.Context, req lifecycle.Request, handle func(context.Context, lifecycle.Request) (lifecycle.Cancel, error)) (cancel lifecycle.Cancel, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error: %v", p)
		}
	}()
	return handle(ctx, req)
}

// always delivers on a stream that does not end with one call.
type always struct{ box *outbox }

func (a always) Deliver(raw []byte, _ bool) {
	if raw != nil {
		a.box.Deliver(raw, false)
	}
}

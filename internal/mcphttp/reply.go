package mcphttp

import (
	"bytes"
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sallyport-dev/sallyport/internal/httpd"
	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
	"github.com/sallyport-dev/sallyport/internal/session"
)

// reply is the answer to one POST: an event stream, or JSON where the client
// takes no other or the answer needs a status of its own.
type reply struct {
	w             http.ResponseWriter
	r             *http.Request
	box           *outbox
	status        func([]byte) int // of an answer, while it can still be chosen
	events, plain bool             // what the client accepts
	opening       bool             // it answers the initialize that opened a session
}

// newReply begins an answer, or refuses a client that takes neither form.
func newReply(w http.ResponseWriter, r *http.Request, status func([]byte) int) *reply {
	a := &reply{w: w, r: r, box: newOutbox(true), status: status}
	if a.events, a.plain = accepts(r.Header); !a.events && !a.plain {
		http.Error(w, "Accept must allow application/json or text/event-stream", http.StatusNotAcceptable)
		return nil
	}
	return a
}

// sink takes what answers the call. Where the client takes only JSON, which
// holds one message, the others go to the session's general stream.
func (a *reply) sink(general *outbox) Sink {
	if a.events {
		return a.box
	}
	return single{a.box, general}
}

// single delivers the answer to one queue and all else to another, or nowhere.
type single struct{ box, general *outbox }

func (s single) Deliver(raw []byte, final bool) {
	switch {
	case final:
		s.box.Deliver(raw, true)
	case s.general != nil && raw != nil:
		s.general.Deliver(raw, false)
	}
}

// session names the session that the request opened, if it opened one.
func (a *reply) session(asked, id string) {
	if a.opening = asked == ""; a.opening {
		a.w.Header().Set(sessionHeader, id)
	}
}

// serve writes the answer. owner ends with the session. It reports whether the
// request opened no session after all.
func (a *reply) serve(owner context.Context) (failed bool) {
	settle := func() bool { return false }
	if a.events {
		eventStream(a.w)
		settle = httpd.StreamFrom(a.r.Context()).Await()
	}
	raw, last, ok := a.box.next(a.r.Context().Done(), owner.Done(), nil)
	started := settle()
	if !started && !ok && !a.box.canceled() && a.stays() {
		raw, last, ok = a.lastWord()
	}
	if !started && (!ok || last) {
		return a.whole(raw, ok)
	}
	for ; ok; raw, last, ok = a.box.next(a.r.Context().Done(), owner.Done(), nil) {
		if emit(a.w, "message", raw) != nil || last {
			break
		}
	}
	return a.box.failure() != nil
}

// stays reports that the client is there, though its request has ended.
func (a *reply) stays() bool { return context.Cause(a.r.Context()) != context.Canceled }

// lastWord waits a moment for what a target that ends says of its calls.
func (a *reply) lastWord() (raw []byte, last, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return a.box.next(ctx.Done(), nil, nil)
}

// whole answers with one message, or none.
func (a *reply) whole(raw []byte, ok bool) (failed bool) {
	err := a.box.failure()
	a.w.Header().Del("Content-Type")
	a.w.Header().Del("Cache-Control")
	switch {
	case !ok && !a.box.canceled() && a.stays():
		session.Refuse(a.w, session.ErrUnknown)
		return true
	case !ok:
		a.w.WriteHeader(http.StatusAccepted) // canceled: there is no answer
		return a.opening                     // nobody knows the session's id
	case err != nil:
		refuse(a.w, raw, err)
		return true
	}
	status := a.status(raw)
	if failed = a.opening && isFault(raw); failed {
		a.w.Header().Del(sessionHeader)
	}
	if status == http.StatusOK && a.events {
		eventStream(a.w)
		_, _ = a.w.Write(event("message", raw)) // with the header and the end in one piece
		return failed
	}
	writeJSON(a.w, status, raw)
	return failed
}

// isFault reports a JSON-RPC error. Few answers are, so they are not all read.
func isFault(raw []byte) bool {
	if !bytes.Contains(raw, []byte(`"error"`)) {
		return false
	}
	m, err := jsonrpc.Parse(raw)
	return err == nil && m.IsError()
}

// onStream is the sink of a message over HTTP+SSE. While a request runs its
// stream is written to more often, so that a client that went away is noticed.
func (s *clientSession) onStream(m *jsonrpc.Message) Sink {
	a := &always{box: s.general}
	if m.IsRequest() && s.stream != nil {
		a.settle = s.stream.AwaitMore()
	}
	return a
}

// always delivers on a stream that does not end with one call.
type always struct {
	box    *outbox
	settle func()
	over   atomic.Bool
}

// Deliver implements Sink.
func (a *always) Deliver(raw []byte, final bool) {
	if raw != nil {
		a.box.Deliver(raw, false)
	}
	if final && a.settle != nil && !a.over.Swap(true) {
		a.settle()
	}
}

package mcphttp

import (
	"context"
	"log/slog"
	"net/http"
	"sync"

	"github.com/sallyport-dev/sallyport/internal/httpd"
	"github.com/sallyport-dev/sallyport/internal/identity"
	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
	"github.com/sallyport-dev/sallyport/internal/session"
)

// Front holds the sessions of all targets of one server.
type Front struct {
	sessions *session.Table
	log      *slog.Logger
	live     sync.Map // session id to *clientSession
	shelf    shelf
}

// New makes a front whose sessions are counted in the table.
func New(sessions *session.Table, log *slog.Logger) *Front {
	f := &Front{sessions: sessions, log: log}
	f.shelf.relieve = f.relieve
	return f
}

// ServeMCP serves streamable HTTP: 2026-07-28 where the version header says
// so, else the versions with sessions. path is the request's, without a slash
// at its end: a session belongs to the path that it was opened on.
func (f *Front) ServeMCP(w http.ResponseWriter, r *http.Request, path string, t Target) {
	stateless := r.Header.Get(versionHeader) >= Stateless
	id := r.Header.Get(sessionHeader)
	switch {
	case r.Method == http.MethodPost && stateless:
		f.once(w, r, t)
	case r.Method == http.MethodPost:
		f.post(w, r, path, t)
	case id == "" || stateless:
		httpd.RefuseMethod(w, "POST") // clients of HTTP+SSE fall back on it
	case r.Method == http.MethodGet:
		f.listen(w, r, path, id)
	case r.Method == http.MethodDelete:
		if s := f.enter(w, r, path, id); s != nil {
			s.place.Leave()
			s.end()
			w.WriteHeader(http.StatusNoContent)
		}
	default:
		httpd.RefuseMethod(w, "GET, POST, DELETE")
	}
}

// once serves a request without a session, which takes a session's place as
// long as it runs. Its client cancels by leaving.
func (f *Front) once(w http.ResponseWriter, r *http.Request, t Target) {
	m := read(w, r)
	if m == nil {
		return
	}
	if fault := checkStateless(r.Header, m); fault != nil {
		writeJSON(w, http.StatusBadRequest, fault)
		return
	}
	if !m.IsRequest() {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	who, _ := identity.From(r.Context())
	place, err := f.sessions.Reserve(who.Principal)
	if err != nil {
		session.Refuse(w, err)
		return
	}
	defer place.Leave()
	reply := newReply(w, r, statelessStatus)
	if reply == nil {
		return
	}
	j := &job{req: Request{Message: m, Identity: who, Sink: reply.sink(nil), Header: mcpHeaders(r.Header)},
		box: reply.box, left: r.Context()}
	go j.run(context.WithoutCancel(r.Context()), t.Once)
	reply.serve(r.Context())
}

// post serves a message of the versions with sessions.
func (f *Front) post(w http.ResponseWriter, r *http.Request, path string, t Target) {
	m := read(w, r)
	if m == nil {
		return
	}
	id := r.Header.Get(sessionHeader)
	if fault := checkSessionful(r.Header.Get(versionHeader), id, m); fault != nil {
		writeJSON(w, http.StatusBadRequest, fault)
		return
	}
	var reply *reply
	if m.IsRequest() {
		if reply = newReply(w, r, statusOK); reply == nil {
			return
		}
	}
	s := f.enterOrOpen(w, r, path, id, t)
	if s == nil {
		return
	}
	defer s.place.Leave()
	if reply == nil {
		if err := s.submit(r, m, nil, nil); err != nil {
			refuseSubmit(w, err)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if err := s.submit(r, m, reply.sink(s.general), reply.box); err != nil {
		refuseSubmit(w, err)
		return
	}
	reply.session(id, s.id)
	if failed := reply.serve(s.over); id == "" && failed {
		s.end()
	}
}

// checkSessionful answers a message that the versions with sessions do not
// allow; nil lets it pass.
func checkSessionful(version, id string, m *jsonrpc.Message) []byte {
	switch {
	case !Known(version):
		return jsonrpc.Fault(m.ID(), jsonrpc.InvalidRequest, "MCP-Protocol-Version %q is not supported", version)
	case m.NamesVersion(): // in the body, but not in the header
		return jsonrpc.Fault(m.ID(), jsonrpc.HeaderMismatch, "the header MCP-Protocol-Version is required")
	case id == "" && (m.Method != "initialize" || !m.IsRequest()):
		return jsonrpc.Fault(m.ID(), jsonrpc.InvalidRequest,
			"no session: send initialize first, then its Mcp-Session-Id")
	}
	return nil
}

// listen serves the stream on which the target speaks unasked. A newer one of
// the same session takes over: the older may be dead without knowing.
func (f *Front) listen(w http.ResponseWriter, r *http.Request, path, id string) {
	s := f.enter(w, r, path, id)
	if s == nil {
		return
	}
	defer s.place.Leave()
	eventStream(w)
	s.general.drain(w, r.Context(), s.over)
}

// ServeSSE serves HTTP+SSE of 2024-11-05 at path: a GET opens the stream, and
// each POST to the endpoint that its first event names carries one message.
func (f *Front) ServeSSE(w http.ResponseWriter, r *http.Request, path string, t Target) {
	id := r.URL.Query().Get("sessionid")
	switch {
	case r.Method == http.MethodGet:
		s := f.open(w, r, path, t)
		if s == nil {
			return
		}
		defer s.end()
		defer s.place.Leave()
		eventStream(w)
		// An absolute path holds for whatever scheme and host the client used.
		if emit(w, "endpoint", []byte(path+"?sessionid="+s.id)) == nil {
			s.general.drain(w, r.Context(), s.over)
		}
	case r.Method == http.MethodPost && id == "":
		httpd.RefuseMethod(w, "GET") // clients that try streamable HTTP first fall back on it
	case r.Method == http.MethodPost:
		f.postSSE(w, r, path, id)
	default:
		httpd.RefuseMethod(w, "GET, POST")
	}
}

func (f *Front) postSSE(w http.ResponseWriter, r *http.Request, path, id string) {
	m := read(w, r)
	if m == nil {
		return
	}
	s := f.enter(w, r, path, id)
	if s == nil {
		return
	}
	defer s.place.Leave()
	if m.NamesVersion() {
		s.general.Deliver(sessionsOnly(m), false)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if err := s.submit(r, m, s.onStream(m), nil); err != nil {
		refuseSubmit(w, err)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

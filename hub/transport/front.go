// Package transport is the hub's side towards clients: streamable HTTP with and
// without sessions, and HTTP+SSE, for any target behind it.
package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/sallyport-dev/sallyport/hub/lifecycle"
	"github.com/sallyport-dev/sallyport/internal/httpd"
	"github.com/sallyport-dev/sallyport/internal/identity"
	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
	"github.com/sallyport-dev/sallyport/internal/session"
)

// Target is what a path serves: one server, or the aggregate.
type Target interface {
	// Open starts a session.
	Open(push lifecycle.Push) Session
	// Once takes one request of the stateless era.
	Once(ctx context.Context, req lifecycle.Request) (lifecycle.Cancel, error)
}

// Session is a client's session with a target.
type Session interface {
	Handle(ctx context.Context, req lifecycle.Request) (lifecycle.Cancel, error)
	Close()
	Gone() bool // what it is a session with is no longer there
}

// Front holds the sessions of all targets.
type Front struct {
	sessions *session.Table
	log      *slog.Logger
	live     sync.Map // session id to *clientSession
}

// New makes a front for sessions.
func New(sessions *session.Table, log *slog.Logger) *Front {
	return &Front{sessions: sessions, log: log}
}

const (
	versionHeader = "Mcp-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"
)

// ServeMCP serves streamable HTTP: 2026-07-28 where the version header says
// so, else the versions with sessions.
func (f *Front) ServeMCP(w http.ResponseWriter, r *http.Request, path string, t Target) {
	modern := r.Header.Get(versionHeader) >= lifecycle.Stateless
	switch {
	case r.Method == http.MethodPost && modern:
		f.once(w, r, t)
	case r.Method == http.MethodPost:
		f.post(w, r, path, t)
	case r.Header.Get(sessionHeader) == "" || modern:
		httpd.RefuseMethod(w, "POST") // clients of HTTP+SSE fall back on it
	case r.Method == http.MethodGet:
		f.listen(w, r, path)
	case r.Method == http.MethodDelete:
		if s := f.enter(w, r, path, r.Header.Get(sessionHeader)); s != nil {
			s.place.Leave()
			s.end()
			w.WriteHeader(http.StatusNoContent)
		}
	default:
		httpd.RefuseMethod(w, "GET, POST, DELETE")
	}
}

// once serves a request without a session. Its client cancels by leaving.
func (f *Front) once(w http.ResponseWriter, r *http.Request, t Target) {
	m := read(w, r)
	if m == nil {
		return
	}
	if fault := lifecycle.CheckStateless(r.Header, m); fault != nil {
		writeJSON(w, http.StatusBadRequest, fault)
		return
	}
	if !m.IsRequest() {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	identity, _ := identity.From(r.Context())
	place, err := f.sessions.Reserve(identity.Principal)
	if err != nil {
		session.Refuse(w, err)
		return
	}
	defer place.Leave()
	box := newOutbox(true)
	job := &job{req: lifecycle.Request{Message: m, Identity: identity, Sink: box, Header: lifecycle.Headers(r.Header)}, box: box, left: r.Context()}
	go job.run(context.WithoutCancel(r.Context()), t.Once)
	box.serve(w, r, r.Context(), modernStatus)
}

// post serves a message of the versions with sessions.
func (f *Front) post(w http.ResponseWriter, r *http.Request, path string, t Target) {
	m := read(w, r)
	if m == nil {
		return
	}
	id := r.Header.Get(sessionHeader)
	var s *clientSession
	switch version := r.Header.Get(versionHeader); {
	case !lifecycle.Known(version):
		writeJSON(w, http.StatusBadRequest, jsonrpc.Fault(m.ID(), jsonrpc.InvalidRequest, "MCP-Protocol-Version %q is not supported", version))
	case m.NamesVersion(): // in the body, but not in the header
		writeJSON(w, http.StatusBadRequest, jsonrpc.Fault(m.ID(), jsonrpc.HeaderMismatch, "the header MCP-Protocol-Version is required"))
	case id != "":
		s = f.enter(w, r, path, id)
	case m.Method == "initialize" && m.IsRequest():
		s = f.open(w, r, path, t)
	default:
		writeJSON(w, http.StatusBadRequest, jsonrpc.Fault(m.ID(), jsonrpc.InvalidRequest, "no session: send initialize first, then its Mcp-Session-Id"))
	}
	if s == nil {
		return
	}
	defer s.place.Leave()
	identity, _ := identity.From(r.Context())
	box := newOutbox(true)
	job := &job{req: lifecycle.Request{Message: m, Identity: identity, Sink: box}, box: box, left: r.Context()}
	if !s.submit(r.Context(), job) {
		session.Refuse(w, session.ErrUnknown)
		return
	}
	if !m.IsRequest() {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if id == "" {
		w.Header().Set(sessionHeader, s.id)
	}
	failed := box.serve(w, r, s.ctx, func([]byte) int { return http.StatusOK })
	if id == "" && failed {
		s.end()
	}
}

// listen serves the stream on which the target speaks unasked. A newer one of
// the same session takes over: the older may be dead without knowing.
func (f *Front) listen(w http.ResponseWriter, r *http.Request, path string) {
	s := f.enter(w, r, path, r.Header.Get(sessionHeader))
	if s == nil {
		return
	}
	defer s.place.Leave()
	events(w)
	s.general.drain(w, r.Context(), s.ctx)
}

// ServeSSE serves HTTP+SSE of 2024-11-05 at path.
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
		events(w)
		if emit(w, "endpoint", []byte(path+"?sessionid="+s.id)) == nil {
			s.general.drain(w, r.Context(), s.ctx)
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
	identity, _ := identity.From(r.Context())
	if !s.submit(r.Context(), &job{req: lifecycle.Request{Message: m, Identity: identity, Sink: always{s.general}}}) {
		session.Refuse(w, session.ErrUnknown)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// read takes the message out of a request, or answers why it cannot.
func read(w http.ResponseWriter, r *http.Request) *jsonrpc.Message {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		http.Error(w, "Content-Type must be application/json", http.StatusUnsupportedMediaType)
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err == nil && !utf8.Valid(body) {
		err = errors.New("not UTF-8")
	}
	var m *jsonrpc.Message
	if err == nil {
		m, err = jsonrpc.Parse(body)
	}
	// What is no notification must not pass as one: a server may run it.
	if err == nil && m.Method != "" && !m.IsRequest() && !strings.HasPrefix(m.Method, "notifications/") {
		err = fmt.Errorf("%s without an id", m.Method)
	}
	if err != nil {
		writeJSON(w, http.StatusBadRequest, jsonrpc.Fault(nil, jsonrpc.ParseError, "the body is refused: %v", err))
		return nil
	}
	return m
}

// modernStatus is the HTTP status that 2026-07-28 wants for an error.
func modernStatus(raw []byte) int {
	m, err := jsonrpc.Parse(raw)
	if err != nil || !m.IsError() {
		return http.StatusOK
	}
	switch m.ErrorCode() {
	case jsonrpc.MethodNotFound:
		return http.StatusNotFound
	case jsonrpc.InvalidParams, jsonrpc.HeaderMismatch, jsonrpc.MissingCapability, jsonrpc.UnsupportedVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// Refuse answers for a target that cannot serve now: 503 and a JSON-RPC error.
func Refuse(w http.ResponseWriter, err error) { refuse(w, unavailable(nil, err), err) }

func refuse(w http.ResponseWriter, raw []byte, err error) {
	var state *lifecycle.StateError
	if errors.As(err, &state) && state.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(state.RetryAfter.Seconds()))))
	}
	writeJSON(w, http.StatusServiceUnavailable, raw)
}

func unavailable(id []byte, err error) []byte {
	var state *lifecycle.StateError
	if !errors.As(err, &state) {
		return jsonrpc.Fault(id, jsonrpc.Unavailable, "%v", err)
	}
	return jsonrpc.FaultData(id, jsonrpc.Unavailable, err.Error(), fmt.Appendf(nil, `{"server":%q,"state":%q}`, state.Server, state.State))
}

func writeJSON(w http.ResponseWriter, status int, raw []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw)
}

package httpd

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// KeepAliveEvery is the longest silence of an event stream. Clients and
	// proxies cut silent bodies after 60 to 300 seconds.
	KeepAliveEvery = 15 * time.Second
	// AwaitEvery is the longest silence while a call runs. Traefik's fast proxy
	// learns that a client has gone only from its writes, and only from the
	// second one: the first still finds a socket that takes it (tried).
	AwaitEvery = 5 * time.Second
	// WriteWait is how long the peer may take to accept one piece of a response.
	WriteWait = 30 * time.Second
	// writePiece bounds what one deadline covers, in bytes: a slow reader gets
	// time for each piece, a stalled one is cut off.
	writePiece = 64 << 10
)

var keepAlive = []byte(": keep-alive\n\n")

// A Stream is the ResponseWriter of one request. Each write has a deadline, so
// that a reader that stalls cannot hold memory indefinitely; and an event stream
// gets a comment after every silence of KeepAliveEvery (AwaitEvery while a call
// runs), never inside an event.
// When a write fails net/http ends the request's context.
type Stream struct {
	inner http.ResponseWriter
	rc    *http.ResponseController

	mu      sync.Mutex
	timer   *time.Timer  // runs while the response is, or may become, an event stream
	status  int          // sent with the header; 0 until then
	events  bool         // it said text/event-stream
	waiting atomic.Int32 // calls that run; the header may be sent for them
	ended   bool         // ServeHTTP returned: nothing may be written any more
	cut     atomic.Bool  // no write may wait any more
	tail    []byte       // the last bytes written, at most four
	last    time.Time    // of the last write
}

type streamKey struct{}

// Streams gives every request a Stream, and logs the requests that were
// refused: without the query, which may hold a session's ID.
func Streams(log *slog.Logger) Step {
	return func(next http.Handler) http.Handler { return streams(log, next) }
}

func streams(log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := newStream(w)
		defer func() {
			if status := s.end(); status >= 400 {
				log.Warn("refused", "status", status, "method", r.Method, "path", r.URL.Path, "remote", r.RemoteAddr)
			}
		}()
		next.ServeHTTP(s, r.WithContext(context.WithValue(r.Context(), streamKey{}, s)))
	})
}

// StreamFrom is the Stream of the request whose context ctx is, or nil.
func StreamFrom(ctx context.Context) *Stream {
	s, _ := ctx.Value(streamKey{}).(*Stream)
	return s
}

func newStream(w http.ResponseWriter) *Stream {
	s := &Stream{inner: w, rc: http.NewResponseController(w), tail: []byte("\n\n")}
	s.extendDeadline()
	return s
}

// Header is the response's header, as in http.ResponseWriter.
func (s *Stream) Header() http.Header { return s.inner.Header() }

// Unwrap lets http.ResponseController reach the read deadline.
func (s *Stream) Unwrap() http.ResponseWriter { return s.inner }

// WriteHeader starts the response.
func (s *Stream) WriteHeader(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start(status)
}

// Write sends p, in pieces with a deadline each.
func (s *Stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return 0, io.ErrClosedPipe
	}
	s.start(http.StatusOK)
	return s.send(p)
}

// FlushError sends what is buffered.
func (s *Stream) FlushError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return io.ErrClosedPipe
	}
	s.start(http.StatusOK)
	s.extendDeadline()
	return s.rc.Flush()
}

// Flush is FlushError for callers that want an http.Flusher.
func (s *Stream) Flush() { _ = s.FlushError() }

// Await says that the handler has set its headers and now waits for its
// result: if that takes long, the event stream starts with a comment. The
// returned function ends the wait and reports whether the header is out, after
// which the status can no longer change.
func (s *Stream) Await() (settle func() (started bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting.Add(1)
	s.arm()
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waiting.Add(-1)
		return s.status != 0
	}
}

// AwaitMore is Await for a stream that has started. To end the wait takes no lock:
// whoever has a result does not wait for a client that reads none.
func (s *Stream) AwaitMore() (settle func()) {
	s.Await()
	return func() { s.waiting.Add(-1) }
}

// Comment writes an SSE comment to a started event stream, if one may stand
// here. text must hold no line break.
func (s *Stream) Comment(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || !s.events || !s.betweenEvents() {
		return
	}
	if _, err := s.send([]byte(": " + text + "\n\n")); err == nil {
		_ = s.rc.Flush()
	}
}

func (s *Stream) start(status int) {
	if s.status != 0 || s.ended {
		return
	}
	s.status, s.events = status, s.isEvents()
	if s.events {
		s.Header().Set("X-Accel-Buffering", "no")
		s.arm()
	}
	s.extendDeadline()
	s.inner.WriteHeader(status)
}

func (s *Stream) send(p []byte) (n int, err error) {
	s.last = time.Now()
	for len(p) > 0 && err == nil {
		piece := p[:min(len(p), writePiece)]
		s.extendDeadline()
		var k int
		k, err = s.inner.Write(piece)
		n, p = n+k, p[k:]
		s.remember(piece[:k])
	}
	return n, err
}

// beat writes a comment when the stream has been silent for long enough.
func (s *Stream) beat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || !s.events && !(s.waiting.Load() > 0 && s.status == 0 && s.isEvents()) {
		s.timer = nil
		return
	}
	s.arm()
	if !s.betweenEvents() || time.Since(s.last) < s.silence()/2 {
		return
	}
	s.start(http.StatusOK)
	if _, err := s.send(keepAlive); err == nil {
		_ = s.rc.Flush()
	}
}

func (s *Stream) arm() {
	if s.timer == nil {
		s.timer = time.AfterFunc(s.silence(), s.beat)
	} else {
		s.timer.Reset(s.silence())
	}
}

func (s *Stream) silence() time.Duration {
	if s.waiting.Load() > 0 {
		return AwaitEvery
	}
	return KeepAliveEvery
}

func (s *Stream) end() (status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.extendDeadline() // net/http still has the end of the response to send
	if s.timer != nil {
		s.timer.Stop()
	}
	return s.status
}

// Cut ends a write that waits for its peer, and fails all later ones. It waits for none.
func (s *Stream) Cut() {
	s.cut.Store(true)
	s.extendDeadline()
}

// extendDeadline is best effort: a test's recorder has no deadline.
func (s *Stream) extendDeadline() {
	_ = s.rc.SetWriteDeadline(time.Now().Add(WriteWait))
	if s.cut.Load() { // asked behind it: whoever cuts comes before or after both
		_ = s.rc.SetWriteDeadline(time.Now())
	}
}

func (s *Stream) isEvents() bool {
	kind, _, _ := mime.ParseMediaType(s.Header().Get("Content-Type"))
	return kind == "text/event-stream"
}

func (s *Stream) remember(p []byte) {
	s.tail = append(s.tail, p[max(0, len(p)-4):]...)
	s.tail = append(s.tail[:0], s.tail[max(0, len(s.tail)-4):]...)
}

// betweenEvents reports whether the last event has ended with a blank line
// (WHATWG HTML, 9.2.5: lines end in LF, CRLF or CR).
func (s *Stream) betweenEvents() bool {
	return bytes.HasSuffix(s.tail, []byte("\n\n")) || bytes.HasSuffix(s.tail, []byte("\r\n\r\n")) ||
		bytes.HasSuffix(s.tail, []byte("\r\r"))
}

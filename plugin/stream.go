package plugin

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
)

// streamWriter stands before answers that may have to be changed: a legacy
// event stream's endpoint, and lists of tools.
//
// It flushes the inner writer itself: Traefik never sees a Flush method of an
// interpreted type. It recovers from panics: with Traefik's fast proxy they
// would happen on a goroutine of its own and end Traefik.
type streamWriter struct {
	c       *call
	rw      http.ResponseWriter
	flusher http.Flusher
	scan    *scanner // nil: bytes pass unchanged
	filter  *grants  // of a POST for tools/list: a JSON answer is held and filtered
	wrote   bool
	sse     bool
	json    bool // the answer is held
	held    []byte
	ends    bool // the token expires, or its grant can be revoked
	dead    bool
}

var errClosed = errors.New("sallyport: the stream is closed")

// maxHeld bounds an answer or event that is held to be filtered.
const maxHeld = 16 << 20

// newStreamWriter returns nil where nothing of the answer could need a change.
// Besides GET, a foreign backend's answer to the first message may start a
// legacy stream: VS Code accepts it.
func newStreamWriter(c *call) *streamWriter {
	filtered := c.who.grants
	if !c.e.cfg.FilterTools || filtered.all {
		filtered = nil
	}
	method := c.message.method
	opening := c.e.cfg.Backend == "other" && (method == "initialize" || method == "server/discover")
	listing := filtered != nil && method == "tools/list"
	ends := c.who.until != math.MaxInt64 || c.who.grant != ""
	if c.method != http.MethodGet && !opening && !listing {
		if !ends {
			return nil
		}
		w := &streamWriter{c: c, rw: c.rw, ends: true}
		w.flusher, _ = c.rw.(http.Flusher)
		return w
	}
	c.r.Header["Accept-Encoding"] = []string{"identity"}
	w := &streamWriter{c: c, rw: c.rw, ends: ends,
		scan: &scanner{place: newPlace(c.e, c.r), seek: true, limit: maxEvent, grants: filtered}}
	if filtered != nil {
		w.scan.limit = maxHeld
	}
	if listing {
		w.filter = filtered
	}
	w.flusher, _ = c.rw.(http.Flusher)
	return w
}

// Header is the inner writer's.
func (w *streamWriter) Header() http.Header { return w.rw.Header() }

// WriteHeader decides what the answer is.
func (w *streamWriter) WriteHeader(code int) {
	defer func() {
		if v := recover(); v != nil {
			w.dead = true
		}
	}()
	if w.wrote {
		return
	}
	if code < 200 {
		w.rw.WriteHeader(code)
		return
	}
	w.wrote = true
	w.c.status = code
	h := w.rw.Header()
	kind := strings.ToLower(strings.Join(h["Content-Type"], ","))
	w.sse = code < 300 && strings.Contains(kind, "text/event-stream")
	w.json = code < 300 && w.filter != nil && !w.sse && strings.Contains(kind, "json")
	encoding := strings.Join(h["Content-Encoding"], ",")
	switch {
	case (w.json || (w.sse && w.scan != nil)) && encoding != "" && encoding != "identity":
		w.fail("the backend encodes its answer although it was asked not to")
		return
	case w.json:
		return
	case w.sse:
		h.Del("Content-Length")
	default:
		w.scan = nil
	}
	w.rw.WriteHeader(code)
	w.flush()
}

// Write passes bytes on, changed or not. It returns len(p) for what is held.
func (w *streamWriter) Write(p []byte) (n int, err error) {
	defer func() {
		if v := recover(); v != nil {
			w.dead = true
			n = 0
			err = errClosed
		}
	}()
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case w.dead:
		return 0, errClosed
	case w.ends && w.sse && w.over():
		return 0, errClosed
	case w.json:
		w.held = append(w.held, p...)
		if len(w.held) > maxHeld {
			w.fail("the backend's answer is too long to be filtered")
			return 0, errClosed
		}
		return len(p), nil
	case w.scan == nil:
		n, err = w.rw.Write(p)
		w.flush()
		return n, err
	}
	passed, why := feed(w.scan, p)
	if !w.scan.seek && w.scan.grants == nil {
		w.scan = nil
	}
	return len(p), w.pass(passed, why)
}

// over ends a stream whose token has expired, or whose grant was revoked.
func (w *streamWriter) over() bool {
	why := ended(w.c)
	if why == "" {
		return false
	}
	w.dead = true
	w.c.verdict = "ended"
	w.c.e.log.Info("a stream of " + w.c.who.id + " was ended: " + why)
	return true
}

// pass writes what a scan let through.
func (w *streamWriter) pass(passed []byte, why string) error {
	if len(passed) > 0 {
		if _, err := w.rw.Write(passed); err != nil {
			return err
		}
		w.flush()
	}
	if why != "" {
		w.close(why)
		return errClosed
	}
	return nil
}

func (w *streamWriter) flush() {
	if w.flusher != nil {
		w.flusher.Flush()
	}
}

// end passes on what is held when the backend's answer is complete.
func (w *streamWriter) end() {
	if w.json && !w.dead {
		body, ok := filterList(w.held, w.filter)
		if !ok && len(body) > 0 { // a legacy server answers on its stream
			w.fail("the backend's list of tools cannot be read")
			return
		}
		w.rw.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.rw.WriteHeader(w.c.status)
		_, _ = w.rw.Write(body)
	} else if w.sse && w.scan != nil && !w.dead {
		_ = w.pass(finishScan(w.scan))
	}
}

// fail answers 502 instead of what the backend sent.
func (w *streamWriter) fail(why string) {
	w.close(why)
	h := w.rw.Header()
	h.Del("Content-Length")
	h.Del("Content-Encoding")
	refuse(w.c, http.StatusBadGateway, w.c.verdict, "the answer of the backend cannot be passed on: see the log")
	w.flush() // the proxy breaks the connection at the error that Write returns
}

// close lets nothing more through: the proxy ends the stream at the error that
// Write returns.
func (w *streamWriter) close(why string) {
	w.dead = true
	w.c.verdict = "answer stopped"
	w.c.e.log.Error("an answer for " + w.c.who.id + " was stopped: " + why)
}

package plugin

import (
	"bytes"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
)

// answerWriter stands before every answer of the backend: what a client could
// follow with its token is decided here.
//
// ResponseWriter is embedded, so that Header stays a method of compiled code. It
// flushes the inner writer itself: Traefik never sees a Flush method of an
// interpreted type. It recovers from panics: with Traefik's fast proxy they would
// happen on a goroutine of its own and end Traefik. Only what cannot panic is
// done without that.
type answerWriter struct {
	http.ResponseWriter
	c         *call
	odd       bytes.Buffer // headers that need a look
	kept      http.Header  // those that pass after it
	looks     bool         // no answer is untouched, or the head was written
	untouched bool         // bytes pass as they are, and need no flush
	names     int          // of headers, where it is untouched: what comes later is a trailer
	wrote     bool
	dead      bool
	flushes   bool
	ends      bool     // the token expires, or its grant can be revoked
	scan      *scanner // of an event stream
	filter    *grants  // of an answer that is held: it is filtered
	held      []byte
}

var errClosed = errors.New("sallyport: the answer was stopped")

// maxHeld bounds an answer or event that is held to be filtered, maxHeldTogether all of
// them. Beside those, small ones pass.
const (
	maxHeld         = 16 << 20
	maxHeldTogether = 64 << 20
)

var heldTogether int64 // bytes; atomic

// hold counts the bytes that are held now, and says whether there is room for them.
func (c *call) hold(n int) bool {
	more := int64(n) - c.held
	c.held = int64(n)
	return atomic.AddInt64(&heldTogether, more) <= maxHeldTogether || n <= smallBody
}

// plainHeads are content types of answers in one piece, as Header.WriteSubset
// writes them.
var plainHeads = map[string]bool{"": true, "Content-Type: application/json\r\n": true,
	"Content-Type: application/json; charset=utf-8\r\n": true, "Content-Type: text/plain\r\n": true,
	"Content-Type: text/plain; charset=utf-8\r\n": true}

var plainStatus = map[int]bool{200: true, 201: true, 202: true}

// harmless is plainAnswer without the type.
var harmless = without(plainAnswer, "Content-Type")

// WriteHeader decides what the answer is. Most are plain: a success of known
// length, of a kind that no client takes for an event stream.
func (w *answerWriter) WriteHeader(code int) {
	h := w.ResponseWriter.Header()
	_ = h.WriteSubset(&w.odd, harmless) // compiled code finds what has no place in the list
	if w.looks || !plainHeads[w.odd.String()] || !plainStatus[code] || h["Content-Length"] == nil {
		w.looks = true
		w.writeOther(code, h)
		return
	}
	w.looks = true
	w.wrote = true
	w.untouched = true
	w.names = len(h)
	w.c.status = code
	w.ResponseWriter.WriteHeader(code)
}

// Write passes bytes on, changed or not. It returns len(p) for what is held.
func (w *answerWriter) Write(p []byte) (int, error) {
	if w.untouched {
		return w.ResponseWriter.Write(p)
	}
	return w.write(p)
}

// writeOther is for the answers that may have to be changed, or stopped.
func (w *answerWriter) writeOther(code int, h http.Header) {
	defer func() {
		if v := recover(); v != nil {
			w.dead = true
		}
	}()
	if w.wrote {
		return
	}
	if code >= 100 && code < 200 {
		if checkAnswerHeaders(w.c, h) == "" {
			w.ResponseWriter.WriteHeader(code)
		}
		return
	}
	w.wrote = true
	w.c.status = code
	why := checkAnswerHeaders(w.c, h)
	switch {
	case code == http.StatusUnauthorized || code == http.StatusProxyAuthRequired:
		why = "the backend answers " + strconv.Itoa(code) +
			": it wants a token that the edge does not send it; give backendTokenFile the backend's own"
	case code < 100 || code > 999:
		why = "the backend answers with the status " + strconv.Itoa(code)
	case why == "":
		why = w.prepare(h, code < 300)
	}
	if why != "" {
		w.fail(why)
		return
	}
	w.kept = h.Clone()
	if w.filter == nil {
		w.flushes = w.scan != nil || h["Content-Length"] == nil
		w.untouched = !w.flushes
		w.ResponseWriter.WriteHeader(code)
	}
	w.flush()
}

// prepare says how an answer passes: it is an event stream, held and filtered, or as
// it is. Some clients take the answer to their GET for a stream, whatever its type, and
// some read a message out of a failure, whatever its status, but no stream.
func (w *answerWriter) prepare(h http.Header, good bool) string {
	kind := strings.ToLower(strings.Join(h["Content-Type"], ","))
	c := w.c
	stream := good && (strings.Contains(kind, "event-stream") || (c.method == "GET" &&
		strings.Contains(strings.ToLower(strings.Join(c.r.Header["Accept"], ",")), "event-stream")))
	var filtered *grants
	if c.e.cfg.FilterTools && !c.who.grants.all {
		filtered = c.who.grants
	}
	if !stream && filtered == nil {
		return ""
	}
	if encoding := strings.ToLower(strings.Join(h["Content-Encoding"], ",")); encoding != "" && encoding != "identity" {
		return "the backend encodes its answer although it was asked not to"
	}
	// as a client may find it: later, or as charset*
	if good && strings.Contains(inUTF8.ReplaceAllString(kind, ""), "charset") {
		return "the backend's answer is in another character set than UTF-8"
	}
	if filtered != nil && !(good && strings.Contains(kind, "event-stream")) {
		w.filter = filtered
	}
	if !stream {
		return ""
	}
	h.Del("Content-Length")
	w.ends = c.who.until != math.MaxInt64 || c.who.grant != ""
	limit := map[bool]int{false: maxEvent, true: maxHeld}[filtered != nil]
	w.scan = &scanner{mapping: newMapping(c), limit: limit, grants: filtered}
	return ""
}

func (w *answerWriter) write(p []byte) (n int, err error) {
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
	case w.filter != nil:
		w.held = append(w.held, p...)
		if len(w.held) > maxHeld || !w.c.hold(len(w.held)) {
			w.fail("the backend's answer is too long to be filtered, alone or beside others")
			return 0, errClosed
		}
		return len(p), nil
	case w.scan != nil && w.ends && w.over():
		return 0, errClosed
	case w.scan != nil:
		passed, why := feed(w.scan, p)
		if why == "" && w.scan.grants != nil && !w.c.hold(len(w.scan.held)) {
			why = "an event is too long to be filtered beside others"
		}
		return len(p), w.pass(passed, why)
	}
	n, err = w.ResponseWriter.Write(p)
	w.flush()
	return n, err
}

// over ends a stream whose token has expired, or whose grant was revoked.
func (w *answerWriter) over() bool {
	why := ended(w.c)
	if why == "" {
		return false
	}
	w.dead = true
	w.c.verdict = "ended"
	counters.Add(w.c.verdict, 1)
	w.c.e.log.Info("a stream of " + w.c.who.id + " was ended: " + why)
	return true
}

// pass writes what a scan let through.
func (w *answerWriter) pass(passed []byte, why string) error {
	if len(passed) > 0 {
		if _, err := w.ResponseWriter.Write(passed); err != nil {
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

func (w *answerWriter) flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok && w.flushes {
		f.Flush()
	}
}

// end passes on what is held when the backend's answer is complete. What the proxy has
// added to the headers since are trailers, which nobody has looked at.
func (w *answerWriter) end() {
	h := w.ResponseWriter.Header()
	for key := range h {
		h[key] = w.kept[key]
		if h[key] == nil { // HTTP/2 would wait for the values of a trailer that has its name only
			delete(h, key)
		}
	}
	switch {
	case w.dead:
	case w.filter != nil:
		body, why := filterAnswer(w.held, w.filter)
		if why == "" && w.scan != nil {
			body, why = scanWhole(w.scan, body)
		}
		if why != "" {
			w.fail(why)
			return
		}
		h.Set("Content-Length", strconv.Itoa(len(body)))
		w.ResponseWriter.WriteHeader(w.c.status)
		_, _ = w.ResponseWriter.Write(body)
	case w.scan != nil:
		_ = w.pass(finishScan(w.scan))
	}
}

// fail answers 502 instead of what the backend sent.
func (w *answerWriter) fail(why string) {
	w.stop(why)
	w.flushes = true
	h := w.ResponseWriter.Header()
	for key := range h { // all is the backend's
		delete(h, key)
	}
	text := []byte("the answer of the backend cannot be passed on: see the log\n")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	answer(w.c, http.StatusBadGateway, w.c.verdict, "text/plain; charset=utf-8", text)
	w.flush() // the proxy breaks the connection at the error that Write returns
}

// close lets nothing more through: the proxy ends the answer at the error that
// Write returns.
func (w *answerWriter) close(why string) {
	w.stop(why)
	counters.Add(w.c.verdict, 1)
}

func (w *answerWriter) stop(why string) {
	w.dead = true
	w.c.hold(0)
	w.c.verdict = "answer_stopped"
	w.c.e.log.Error("an answer for " + w.c.who.id + " was stopped: " + why)
}

// checkAnswerHeaders maps addresses, drops what an answer shall not plant, and
// says why the answer must be stopped.
func checkAnswerHeaders(c *call, h http.Header) string {
	if len(h) > maxHeaders {
		return "it has more than 256 headers"
	}
	why := ""
	for key := range h {
		switch {
		case plainAnswer[key]:
		case challenges[key] || (planted[key] && !c.e.passBack[key]):
			delete(h, key)
			dropped(c, "an answer", key)
		case addresses[key]:
			wrong := mapAddress(c, h, key)
			if wrong != "" {
				why = "its " + key + " cannot be mapped: " + wrong
			}
		}
	}
	return why
}

// mapAddress maps a header like an endpoint: a client sends its token there.
func mapAddress(c *call, h http.Header, key string) string {
	values := h[key]
	if len(values) != 1 {
		return "it is there more than once"
	}
	to, why := publicEndpoint(newMapping(c), values[0])
	h[key] = []string{to}
	return why
}

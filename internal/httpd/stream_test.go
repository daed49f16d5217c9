package httpd_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sallyport-dev/sallyport/internal/httpd"
)

var quiet = slog.New(slog.DiscardHandler)

// recorder is a ResponseWriter that may be read while it is written, and whose
// write deadlines are seen.
type recorder struct {
	mu        sync.Mutex
	header    http.Header
	status    int
	body      strings.Builder
	deadline  time.Time
	deadlines int
	fail      error
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.body.Write(p)
	return len(p), r.fail
}

func (r *recorder) Flush() {}

func (r *recorder) SetWriteDeadline(t time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deadline, r.deadlines = t, r.deadlines+1
	return nil
}

func (r *recorder) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.body.String()
}

// serve runs handler behind Streams, with a clock of its own.
func serve(t *testing.T, handler func(w http.ResponseWriter, r *http.Request, rec *recorder)) *recorder {
	rec := &recorder{header: http.Header{}}
	synctest.Test(t, func(t *testing.T) {
		h := httpd.Streams(quiet)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler(w, r, rec) }))
		h.ServeHTTP(rec, httptest.NewRequest("GET", "/", nil))
		length := len(rec.text())
		time.Sleep(time.Hour)
		if len(rec.text()) != length {
			t.Error("something was written after the handler returned")
		}
	})
	return rec
}

const comment = ": keep-alive\n\n"

func TestKeepAlive(t *testing.T) {
	rec := serve(t, func(w http.ResponseWriter, _ *http.Request, rec *recorder) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_, _ = io.WriteString(w, "data: 1\n\n")
		time.Sleep(3*httpd.KeepAliveEvery + time.Second)
		if got := strings.Count(rec.text(), comment); got != 3 {
			t.Errorf("%d comments in the silence of three, %q", got, rec.text())
		}
		if wait := time.Until(rec.deadline); wait <= 0 || wait > httpd.WriteWait {
			t.Errorf("the last write had a deadline of %v", wait)
		}
	})
	if rec.header.Get("X-Accel-Buffering") != "no" || rec.status != 200 {
		t.Errorf("%d %v", rec.status, rec.header)
	}
}

// A comment inside an event would become part of it, or end it.
func TestKeepAliveNeverInsideAnEvent(t *testing.T) {
	for _, part := range []string{"data: 1", "data: 1\n", "data: 1\r\n", "data: 1\r"} {
		serve(t, func(w http.ResponseWriter, _ *http.Request, rec *recorder) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, part)
			time.Sleep(10 * httpd.KeepAliveEvery)
			if got := rec.text(); got != part {
				t.Errorf("after %q: %q", part, got)
			}
			for _, b := range []byte("\n\n") { // byte by byte
				_, _ = w.Write([]byte{b})
			}
			time.Sleep(10 * httpd.KeepAliveEvery)
			if got := rec.text(); !strings.HasSuffix(got, comment) {
				t.Errorf("after the event's end: %q", got)
			}
		})
	}
}

func TestNoKeepAliveWhereNoneBelongs(t *testing.T) {
	for kind, status := range map[string]int{"application/json": 200, "": 404} {
		serve(t, func(w http.ResponseWriter, _ *http.Request, rec *recorder) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			time.Sleep(time.Hour)
			if got := rec.text(); got != "" {
				t.Errorf("%q: %q", kind, got)
			}
		})
	}
	serve(t, func(w http.ResponseWriter, _ *http.Request, rec *recorder) {
		w.Header().Set("Content-Type", "text/event-stream")
		time.Sleep(time.Hour) // the handler has not decided on a status
		if rec.status != 0 {
			t.Error("the header was sent before the handler sent it")
		}
	})
}

// While a handler awaits its result, silence starts the stream; a result that
// comes before leaves the status free.
func TestAwait(t *testing.T) {
	serve(t, func(w http.ResponseWriter, r *http.Request, rec *recorder) {
		w.Header().Set("Content-Type", "text/event-stream")
		settle := httpd.StreamFrom(r.Context()).Await()
		time.Sleep(httpd.AwaitEvery / 2)
		if settle() || rec.status != 0 {
			t.Error("a quick result finds the header sent")
		}
		time.Sleep(time.Hour)
		if rec.status != 0 {
			t.Error("the header was sent after the wait")
		}
		settle = httpd.StreamFrom(r.Context()).Await()
		time.Sleep(2*httpd.AwaitEvery + time.Second)
		if !settle() || rec.text() != comment+comment {
			t.Errorf("a slow result finds %q", rec.text())
		}
	})
}

// While a call runs an open stream is less often silent, and later as before.
func TestAwaitOnAnOpenStream(t *testing.T) {
	serve(t, func(w http.ResponseWriter, r *http.Request, rec *recorder) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		time.Sleep(httpd.KeepAliveEvery - time.Second)
		first := httpd.StreamFrom(r.Context()).Await()
		second := httpd.StreamFrom(r.Context()).Await()
		time.Sleep(httpd.AwaitEvery + time.Second)
		first()
		time.Sleep(httpd.AwaitEvery)
		if got := strings.Count(rec.text(), comment); got != 2 {
			t.Errorf("%d comments while a call runs, want 2", got)
		}
		second()
		time.Sleep(2 * httpd.KeepAliveEvery)
		if got := strings.Count(rec.text(), comment); got > 5 {
			t.Errorf("%d comments, want at most 5", got)
		}
	})
}

func TestEveryPieceHasADeadline(t *testing.T) {
	serve(t, func(w http.ResponseWriter, _ *http.Request, rec *recorder) {
		before := rec.deadlines
		if n, err := w.Write(make([]byte, 1<<20)); n != 1<<20 || err != nil {
			t.Errorf("wrote %d: %v", n, err)
		}
		if got := rec.deadlines - before; got < 16 {
			t.Errorf("1 MiB was written under %d deadlines", got)
		}
		rec.fail = errors.New("no deadline was met")
		if _, err := w.Write([]byte("x")); !errors.Is(err, rec.fail) {
			t.Errorf("the error is %v", err)
		}
	})
}

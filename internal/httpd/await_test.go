package httpd_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/httpd"
)

// stuck is a client that reads nothing: a write to it does not return.
type stuck struct {
	http.ResponseWriter
	writing chan bool
	goOn    chan bool
}

func (s stuck) Write(p []byte) (int, error) {
	s.writing <- true
	<-s.goOn
	return len(p), nil
}

// Whoever has a result does not wait for a client that reads none. The twin, Await,
// which must know whether the header is out, does.
func TestResultsDoNotWaitForReaders(t *testing.T) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	w := stuck{httptest.NewRecorder(), make(chan bool), make(chan bool)}
	httpd.Streams(log)(http.HandlerFunc(func(w2 http.ResponseWriter, r *http.Request) {
		w2.Header().Set("Content-Type", "text/event-stream")
		stream := httpd.StreamFrom(r.Context())
		settle, twin := stream.AwaitMore(), stream.Await()
		written := make(chan bool)
		go func() { w2.Write([]byte("data: x\n\n")); close(written) }()
		<-w.writing
		settle() // at once, or the test hangs
		settled := make(chan bool)
		go func() { twin(); close(settled) }()
		select {
		case <-settled:
			t.Error("the twin did not wait")
		case <-time.After(100 * time.Millisecond):
		}
		w.goOn <- true
		<-written
		<-settled
	})).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
}

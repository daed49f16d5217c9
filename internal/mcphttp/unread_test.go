package mcphttp

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
	"github.com/sallyport-dev/sallyport/internal/session"
)

// eager is a target that pushes as soon as a session opens.
type eager struct{ message *jsonrpc.Message }

func (e eager) Open(push Push) Session                              { push(e.message, nil); return e }
func (eager) Once(context.Context, Request) (Cancel, error)         { return nil, nil }
func (eager) Handle(ctx context.Context, _ Request) (Cancel, error) { return nil, nil }
func (eager) Close()                                                {}
func (eager) Gone() bool                                            { return false }

// broken is a client that is gone before the first event.
type broken struct{ *httptest.ResponseRecorder }

func (broken) Write([]byte) (int, error) { return 0, errors.New("gone") }

// What waited for a client that went away before its stream began counts no more for the
// room that all share. The twin reads its stream for a while.
func TestNothingStaysOnTheShelf(t *testing.T) {
	m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","method":"notifications/x","params":{"a":"` + strings.Repeat("x", 1000) + `"}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, gone := range map[string]bool{"gone": true, "twin": false} {
		synctest.Test(t, func(t *testing.T) {
			f := New(session.NewTable(10), slog.New(slog.DiscardHandler))
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			rec := httptest.NewRecorder()
			var w http.ResponseWriter = rec
			if gone {
				w = broken{rec}
			}
			go f.ServeSSE(w, httptest.NewRequest("GET", "/sse", nil).WithContext(ctx), "/sse", eager{m})
			synctest.Wait()
			if read := strings.Contains(rec.Body.String(), "xxx"); read == gone {
				t.Errorf("%s: read %v", name, read)
			}
			leave()
			synctest.Wait()
			if n := f.shelf.bytes.Load(); n != 0 || f.sessions.Len() != 0 {
				t.Errorf("%s: %d bytes stay counted, of %d sessions", name, n, f.sessions.Len())
			}
		})
	}
}

package edge

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// Any answer passes at once, whatever its type: the backend sends each part only
// after the client has said that it has the one before. The twin without the
// plugin shows that Traefik does so too.
func TestAnswersPassAtOnce(t *testing.T) {
	bothProxies(t, func(t *testing.T, fast bool) {
		read := make(chan struct{})
		s := newStandFor(t, fast, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/x-ndjson")
			for _, part := range []string{"1\n", "2\n", "3\n"} {
				io.WriteString(w, part)
				w.(http.Flusher).Flush()
				select {
				case <-read:
				case <-r.Context().Done():
					return
				}
			}
		})
		for name, base := range map[string]string{"guarded": s.Web, "twin": s.twin} {
			client := rig.HTTPClient(s.token)
			client.Timeout = rig.Deadline // of the whole answer
			resp, err := client.Get(base + "/mcp/log")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			for i := range 3 {
				part := make([]byte, 2)
				if _, err := io.ReadFull(resp.Body, part); err != nil || string(part) != fmt.Sprintln(i+1) {
					t.Fatalf("%s: part %d is %q, %v", name, i+1, part, err)
				}
				read <- struct{}{}
			}
		}
	})
}

// What cannot be passed on is answered with an error, not with a broken connection.
func TestEncodedStreamIsAnswered(t *testing.T) {
	bothProxies(t, func(t *testing.T, fast bool) {
		s := newStandFor(t, fast, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Encoding", "gzip")
			io.WriteString(w, zipped("event: endpoint\ndata: http://evil.example/\n\n"))
		})
		get := wire{method: "GET", target: "/mcp/sse", header: [][2]string{{"Authorization", "Bearer " + s.token}}}
		if a := get.http1(t, s.Web); a.status != http.StatusBadGateway || a.body != "the answer of the backend cannot be passed on: see the log\n" {
			t.Errorf("guarded: %d %q", a.status, a.body)
		}
		if a := get.http1(t, s.twin); a.status != http.StatusOK {
			t.Errorf("twin: %d %q", a.status, a.body)
		}
	})
}

// newStandFor is a stand with a backend of the test's own.
func newStandFor(t *testing.T, fast bool, serve http.HandlerFunc) *stand {
	t.Helper()
	b := &backend{Server: httptest.NewServer(serve)}
	t.Cleanup(func() { b.CloseClientConnections(); b.Close() })
	return startStand(t, b, fast)
}

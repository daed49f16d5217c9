package chain_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// Nothing is buffered, shown without a clock: the backend sends its second event
// only after the client has said that it read the first.
func TestNothingIsBuffered(t *testing.T) {
	for _, method := range []string{"GET", "POST"} { // a session's stream; an answer that streams
		t.Run(method, func(t *testing.T) {
			withBothProxies(t, func(t *testing.T, fast bool) {
				b := newTalk(t)
				_, tokenFile := rig.NewToken(t)
				token, clientFile := rig.NewToken(t)
				files := rig.Files{SandboxAddr: b.addr(), SandboxToken: tokenFile}
				yaml := strings.ReplaceAll(files.Dynamic(t), "/client-token", clientFile)
				tr := rig.StartTraefik(t, rig.TraefikOptions{Dynamic: yaml, FastProxy: fast})
				if err := b.converse(t.Context(), rig.Deadline, method, tr.WebSecure, token); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// The test above can fail: with a plugin whose writer has a Flush method, which
// Traefik never sees, and which does not flush by itself, the first event stays
// behind.
func TestAWriterThatIsNotFlushedIsNoticed(t *testing.T) {
	withBothProxies(t, func(t *testing.T, fast bool) {
		b := newTalk(t)
		tr := rig.StartTraefik(t, rig.TraefikOptions{
			FastProxy: fast, Plugin: abs(t, "testdata/unflushed"),
			Dynamic: fmt.Sprintf(`http:
  routers: {r: {rule: "PathPrefix(%s)", entryPoints: [websecure], service: s, middlewares: [m], tls: {}}}
  middlewares: {m: {plugin: {sallyport: {wrap: "true"}}}}
  services: {s: {loadBalancer: {servers: [{url: "http://%s"}]}}}
`, "`/`", b.addr()),
		})
		err := b.converse(t.Context(), 10*time.Second, "GET", tr.WebSecure, "")
		if err == nil || !strings.Contains(err.Error(), "nothing came") {
			t.Errorf("through a writer that is not flushed: %v; the streaming test proves nothing", err)
		}
	})
}

// talk is a backend that waits for its client between two events.
type talk struct {
	*httptest.Server
	heard chan struct{} // the client has read the first event
}

func newTalk(t *testing.T) *talk {
	b := &talk{heard: make(chan struct{})}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: endpoint\ndata: /mcp-sandbox/sse?sessionid=one\n\n")
		w.(http.Flusher).Flush()
		select {
		case <-b.heard:
			fmt.Fprint(w, "event: message\ndata: two\n\n")
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { b.CloseClientConnections(); b.Close() })
	return b
}

func (b *talk) addr() string { return strings.TrimPrefix(b.URL, "http://") }

// converse is the client's side. It returns nil if both events came, each within
// the limit.
func (b *talk) converse(ctx context.Context, limit time.Duration, method, url, token string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	path, body := "/mcp-sandbox/sse", ""
	if method == "POST" {
		path, body = "/mcp-sandbox/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	}
	req, err := http.NewRequestWithContext(ctx, method, url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	if body == "" {
		req.Body = nil
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := within(limit, "the answer's header", func() (*http.Response, error) { return rig.HTTPClient(token).Do(req) })
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	stream := bufio.NewReader(resp.Body)
	first, err := within(limit, "the first event", func() (string, error) { return event(stream) })
	if err != nil || !strings.Contains(first, "sessionid=one") {
		return errors.Join(err, fmt.Errorf("status %d, first event %q", resp.StatusCode, first))
	}
	close(b.heard)
	second, err := within(limit, "the second event", func() (string, error) { return event(stream) })
	if err != nil || !strings.Contains(second, "two") {
		return errors.Join(err, fmt.Errorf("second event %q", second))
	}
	return nil
}

package upstream_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/hub/upstream"
)

// Long messages that never end take bounded room, of all connections together; those
// of a usual length pass beside them, and the room comes back.
func TestUnfinishedMessagesAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	text := strings.Repeat("x", 15<<20)
	dial := func() (upstream.Conn, net.Conn) {
		c, err := upstream.Unix(path)(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { server.Close() }) // and not when the collector finds it
		return c, server
	}
	type ending struct {
		line []byte
		err  error
	}
	const many = 12 // of 15 MiB, where there is room for nine
	ended, written := make(chan ending, many), make(chan error, many)
	var conns []upstream.Conn
	for range many {
		c, server := dial()
		conns = append(conns, c)
		go func() {
			line, err := c.Receive()
			c.Close()
			ended <- ending{line, err}
		}()
		go func() {
			_, err := io.WriteString(server, text)
			written <- err
		}()
	}
	for range many - 9 {
		if e := <-ended; !errors.Is(e.err, upstream.ErrCrowded) {
			t.Fatalf("%d bytes, %v", len(e.line), e.err)
		}
	}
	usual, server := dial()
	defer usual.Close()
	go fmt.Fprintf(server, "%s\n", text[:512<<10])
	if line, err := usual.Receive(); err != nil || len(line) != 512<<10+1 {
		t.Errorf("twin: a line of half a MiB beside them: %d bytes, %v", len(line), err)
	}
	for _, c := range conns {
		c.Close()
	}
	for range 9 {
		<-ended
	}
	for range many {
		<-written
	}
	go fmt.Fprintf(server, "%s\n", text)
	if line, err := usual.Receive(); err != nil || len(line) != len(text)+1 {
		t.Errorf("twin: a long line when they are gone: %d bytes, %v", len(line), err)
	}
}

// A remote server's answers count, too, as JSON and as events.
func TestRemoteAnswersAreCounted(t *testing.T) {
	for _, kind := range []string{"application/json", "text/event-stream"} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			answer := `{"jsonrpc":"2.0","id":1,"result":{"text":"` + strings.Repeat("y", 2<<20) + `"}}`
			if kind != "application/json" {
				answer = "data: " + answer + "\n\n"
			}
			io.WriteString(w, answer)
		}))
		ask := func() string {
			c, err := upstream.HTTP(upstream.Remote{URL: srv.URL})(t.Context())
			if err == nil {
				err = c.Send(upstream.Outgoing{Raw: []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)})
			}
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			raw, err := c.Receive()
			return fmt.Sprintf("%.300s %v", raw, err)
		}
		give := upstream.Crowd(128<<20 - 1<<19)
		if got := ask(); !strings.Contains(got, "128 MiB of unfinished ones") {
			t.Errorf("%s: %s", kind, got)
		}
		give()
		if got := ask(); !strings.Contains(got, "yyyy") {
			t.Errorf("twin, %s: %s", kind, got)
		}
		if n := upstream.Unfinished(); n != 0 {
			t.Errorf("%s: %d bytes stay taken", kind, n)
		}
		srv.Close()
	}
}

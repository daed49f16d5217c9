package mcphttp_test

import (
	"bufio"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/httpd"
	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
	"github.com/sallyport-dev/sallyport/internal/mcphttp"
	"github.com/sallyport-dev/sallyport/internal/session"
)

// Streams that nobody reads hold 64 MiB together, in messages that wait and in those that are
// being written: then those end that stand still for longest, and a client that reads loses
// nothing. The twin: where less waits, all of it arrives.
func TestStalledStreamsShareRoom(t *testing.T) {
	for _, c := range []struct {
		stalled, messages, size int
		some                    bool
	}{{8, 16, 1 << 20, true}, {2, 16, 1 << 20, false}, {8, 1, 12 << 20, true}, {2, 1, 12 << 20, false}} {
		stalledStreams(t, c.stalled, c.messages, c.size, c.some)
	}
}

func stalledStreams(t *testing.T, stalled, messages, size int, some bool) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	f, target := mcphttp.New(session.NewTable(20), log), talker{push: make(chan mcphttp.Push, 1)}
	srv := httptest.NewServer(httpd.Streams(log)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.ServeMCP(w, r, "/mcp", target)
	})))
	t.Cleanup(srv.Close) // after the bodies
	listen := func() (mcphttp.Push, *bufio.Reader) {
		t.Helper()
		var last *http.Response
		head := http.Header{"Content-Type": {"application/json"}}
		for _, method := range []string{"POST", "GET"} {
			req, err := http.NewRequestWithContext(t.Context(), method, srv.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header = head.Clone()
			if last, err = http.DefaultClient.Do(req); err != nil || last.StatusCode != http.StatusOK {
				t.Fatal(err, last)
			}
			t.Cleanup(func() { last.Body.Close() })
			head.Set("Mcp-Session-Id", last.Header.Get("Mcp-Session-Id"))
		}
		return <-target.push, bufio.NewReader(last.Body)
	}
	message := func(text string) *jsonrpc.Message {
		m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","method":"notifications/x","params":{"text":"` + text + `"}}`))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	large, short := message(strings.Repeat("x", size)), message(strings.Repeat("x", 1<<20))
	arrives := func(r *bufio.Reader) bool {
		for {
			line, err := r.ReadString('\n')
			if err != nil || strings.HasPrefix(line, "data: ") {
				return err == nil
			}
		}
	}
	begun := time.Now()
	var streams []*bufio.Reader
	for range stalled {
		push, stream := listen()
		streams = append(streams, stream)
		for range messages {
			push(large, nil)
		}
	}
	push, reader := listen()
	for range 3 {
		if push(short, nil); !arrives(reader) {
			t.Error("the client that reads lost a message")
		}
	}
	ended := 0
	for _, stream := range streams {
		for range messages {
			if !arrives(stream) {
				ended++
				break
			}
		}
	}
	if took := time.Since(begun); took > httpd.WriteWait/2 {
		t.Skipf("%v: so late that streams end by themselves", took)
	}
	if (ended > 0) != some || ended == stalled {
		t.Errorf("of %d streams with %d messages of %d bytes %d ended", stalled, messages, size, ended)
	}
}

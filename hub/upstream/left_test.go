package upstream_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/hub/upstream"
	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
)

// until waits for an event of the test's server.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// A server that answers and then keeps the stream open holds no connection of the
// hub's for good. What it says within the grace is still heard, and one that ends its
// stream itself keeps its connection, which the next call uses.
func TestAnsweredStreamIsLeft(t *testing.T) {
	defer upstream.HastenCancel(50 * time.Millisecond)()
	for _, stateless := range []bool{false, true} {
		var open atomic.Int64
		c := dial(t, upstream.HTTP(remote(t, func(w http.ResponseWriter, r *http.Request) {
			open.Add(1)
			defer open.Add(-1)
			body, _ := io.ReadAll(r.Body)
			m, _ := jsonrpc.Parse(body)
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}\n\n", m.ID())
			fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/late\"}\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})))
		var header http.Header
		if stateless {
			header = http.Header{"Mcp-Method": {"tools/list"}}
		}
		const calls = 5
		heard := 0
		for n := range calls {
			raw := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, n)
			if err := c.Send(upstream.Outgoing{Raw: raw, Header: header}); err != nil {
				t.Fatal(err)
			}
		}
		for heard < 2*calls {
			raw, err := c.Receive()
			if err != nil {
				t.Fatal(err)
			}
			if m, err := jsonrpc.Parse(raw); err != nil || !m.IsResponse() && m.Method != "notifications/late" {
				t.Errorf("stateless %v: %s", stateless, raw)
			}
			heard++
		}
		until(t, fmt.Sprintf("stateless %v: streams stay open after their answers", stateless),
			func() bool { return open.Load() == 0 })
	}
}

// A server that loses its session over and over is listened to on one stream, that of
// the newest session.
func TestOneListenerAtATime(t *testing.T) {
	var sessions, open, greeted atomic.Int64
	c := dial(t, upstream.HTTP(remote(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, _ := jsonrpc.Parse(body)
		current := fmt.Sprint(sessions.Load())
		switch {
		case r.Method == http.MethodGet:
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			open.Add(1)
			defer open.Add(-1)
			<-r.Context().Done()
		case r.Method != http.MethodPost: // the end of the session
		case m.Method == "initialize":
			w.Header().Set("Mcp-Session-Id", fmt.Sprint(sessions.Add(1)))
			w.Header().Set("Content-Type", "application/json")
			w.Write(jsonrpc.Answer(m.ID(), []byte(`{"protocolVersion":"2025-06-18"}`)))
		case !m.IsRequest():
			greeted.Add(1)
			w.WriteHeader(202)
		case r.Header.Get("Mcp-Session-Id") != current:
			w.WriteHeader(404)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.Write(jsonrpc.Answer(m.ID(), []byte(`{}`)))
		}
	})))
	exchange(t, c, greeting)
	c.Send(upstream.Outgoing{Raw: []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)})
	until(t, "nobody listens", func() bool { return open.Load() == 1 })
	for n := range int64(5) {
		sessions.Add(1) // it forgets
		if got := exchange(t, c, request); !strings.Contains(got, `"result"`) {
			t.Fatal(got)
		}
		until(t, "the client's initialized is not repeated", func() bool { return greeted.Load() >= n+2 })
	}
	until(t, "the streams of lost sessions stay open", func() bool { return open.Load() == 1 })
}

// What an event is made of counts, however short its lines are: their memory is that
// of the lines and not of their bytes.
func TestShortLinesAreCounted(t *testing.T) {
	before := upstream.Unfinished()
	const lines = 1 << 18
	r := remote(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":[0\n"+strings.Repeat("data:,1\n", lines)+"data: ]}}\n\n")
	})
	ask := func() string {
		c := dial(t, upstream.HTTP(r))
		return exchange(t, c, request)
	}
	give := upstream.Crowd(128<<20 - 4<<20)
	if got := ask(); !strings.Contains(got, "128 MiB of unfinished ones") {
		t.Errorf("%.200s", got)
	}
	give()
	if got := ask(); !strings.Contains(got, `"a":[0`) {
		t.Errorf("twin: %.200s", got)
	}
	until(t, "room stays taken", func() bool { return upstream.Unfinished() == before })
}

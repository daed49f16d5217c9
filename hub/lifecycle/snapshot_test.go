package lifecycle_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/hub/lifecycle"
	"github.com/sallyport-dev/sallyport/hub/upstream"
	"github.com/sallyport-dev/sallyport/internal/identity"
	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
	"github.com/sallyport-dev/sallyport/internal/mcphttp"
)

// scripted is a server that answers by a function of what it heard.
type scripted struct {
	*picky
	answer func(m *jsonrpc.Message) string // a result, or "" for none
}

func (s scripted) Send(m upstream.Outgoing) error {
	msg, err := jsonrpc.Parse(m.Raw)
	if err != nil || !msg.IsRequest() {
		return err
	}
	if result := s.answer(msg); result != "" {
		s.lines <- jsonrpc.Answer(msg.ID(), []byte(result))
	}
	return nil
}

func scriptedServer(t *testing.T, starts *atomic.Int64, slow <-chan struct{},
	make1 func() func(*jsonrpc.Message) string) *lifecycle.Server {
	t.Helper()
	c := newCrowd(t, 100)
	dial := func(context.Context) (upstream.Conn, error) {
		starts.Add(1)
		if slow != nil {
			<-slow
		}
		return scripted{&picky{lines: make(chan []byte, 10), gone: make(chan struct{})}, make1()}, nil
	}
	s := lifecycle.New(lifecycle.Config{Name: "s", Most: 8, Hash: "h", Dial: dial, Store: c.store,
		CallTimeout: time.Minute,
		Log:         slog.New(slog.NewTextHandler(io.Discard, nil))})
	t.Cleanup(s.Close)
	return s
}

// A client that elicits is shown the tools that the server has for such
// clients, also from the snapshot, and one that does not its own.
func TestSnapshotsBelongToCapabilities(t *testing.T) {
	var starts atomic.Int64
	s := scriptedServer(t, &starts, nil, func() func(*jsonrpc.Message) string {
		more := ""
		return func(m *jsonrpc.Message) string {
			if m.Method == "initialize" && m.Param("capabilities", "elicitation").Present() {
				more = `,{"name":"ask","inputSchema":{"type":"object"}}`
			}
			return `{"protocolVersion":"2025-06-18","capabilities":{},"instructions":"` + fmt.Sprint(more != "") +
				`","tools":[{"name":"x","inputSchema":{"type":"object"}}` + more + `]}`
		}
	})
	look := func(capabilities string) string {
		session := s.Session(quiet)
		defer session.Close()
		hi, err := say(t, session, 1, "initialize", `{"protocolVersion":"2025-06-18","capabilities":`+capabilities+`}`)
		if err != nil {
			t.Fatal(err)
		}
		list, err := say(t, session, 2, "tools/list", `{}`)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(strings.Contains(hi, `"instructions":"true"`), strings.Contains(list, `"ask"`))
	}
	for range 2 { // the second time all of it comes from the snapshot
		for capabilities, want := range map[string]string{`{}`: "false false", `{"elicitation":{}}`: "true true",
			`{"elicitation":{},"roots":{}}`: "true true", `{"sampling":{}}`: "false false"} {
			if got := look(capabilities); got != want {
				t.Errorf("%s: %s, want %s", capabilities, got, want)
			}
		}
	}
	if n := starts.Load(); n != 4 {
		t.Errorf("%d starts for four kinds of clients", n)
	}
	for n := range 40 { // kinds that are invented do not fill the snapshot
		look(fmt.Sprintf(`{"experimental":{"x%d":{}}}`, n))
	}
	if got := look(`{"elicitation":{}}`); got != "true true" {
		t.Errorf("after many others: %s", got)
	}
}

// A client that gives up before the server is there and comes again meets the
// start that is under way; another kind of client does not.
func TestOneStartServesWhoComesAgain(t *testing.T) {
	var starts atomic.Int64
	slow := make(chan struct{})
	s := scriptedServer(t, &starts, slow, func() func(*jsonrpc.Message) string {
		return func(*jsonrpc.Message) string { return `{"protocolVersion":"2025-06-18","capabilities":{},"tools":[]}` }
	})
	greeting, _ := jsonrpc.Parse(jsonrpc.Request("1", "initialize", []byte(hello)))
	for range 4 {
		ctx, cancel := context.WithCancel(t.Context())
		session := s.Session(quiet)
		gone := make(chan error, 1)
		go func() {
			_, err := session.Handle(ctx, mcphttp.Request{Message: greeting, Sink: make(answers, 1),
				Identity: identity.Identity{Tools: []string{"*"}}})
			gone <- err
		}()
		for starts.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
		if err := <-gone; err == nil {
			t.Fatal("an impatient client was answered")
		}
		session.Close()
	}
	close(slow)
	session := s.Session(quiet)
	if got, err := say(t, session, 1, "initialize", hello); err != nil || !strings.Contains(got, "result") {
		t.Errorf("the patient client: %s %v", got, err)
	}
	if n := starts.Load(); n != 1 {
		t.Errorf("%d starts", n)
	}
	other := s.Session(quiet)
	if _, err := say(t, other, 1, "initialize",
		`{"protocolVersion":"2099-01-01","capabilities":{"roots":{}}}`); err != nil || starts.Load() != 2 {
		t.Errorf("another client: %v after %d starts", err, starts.Load())
	}
}

// A server that goes ends its sessions, too: whoever waits in one is told that, and not
// that the session ended.
func TestWhoWaitsForAServerThatGoesIsTold(t *testing.T) {
	var starts atomic.Int64
	slow := make(chan struct{})
	s := scriptedServer(t, &starts, slow, func() func(*jsonrpc.Message) string {
		return func(*jsonrpc.Message) string { return "" }
	})
	defer close(slow)
	greeting, _ := jsonrpc.Parse(jsonrpc.Request("1", "initialize", []byte(hello)))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told := make(chan error, 1)
	go func() {
		_, err := s.Session(quiet).Handle(ctx, mcphttp.Request{Message: greeting, Sink: make(answers, 1),
			Identity: identity.Identity{Tools: []string{"*"}}})
		told <- err
	}()
	for starts.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	s.Stop()
	cancel()
	if err := <-told; err == nil || !strings.Contains(err.Error(), "the hub was stopped") {
		t.Errorf("told %v", err)
	}
}

// A listing that names the same page again ends with it; the tools are there,
// and callable.
func TestPageThatLeadsToItself(t *testing.T) {
	var starts, lists atomic.Int64
	s := scriptedServer(t, &starts, nil, func() func(*jsonrpc.Message) string {
		return func(m *jsonrpc.Message) string {
			if m.Method == "tools/list" {
				lists.Add(1)
			}
			return `{"protocolVersion":"2025-06-18","capabilities":{},"tools":[{"name":"x","inputSchema":{"type":"object"}}],"nextCursor":"again","content":[]}`
		}
	})
	session := s.Session(quiet)
	if _, err := say(t, session, 1, "initialize", hello); err != nil {
		t.Fatal(err)
	}
	if got, err := say(t, session, 2, "tools/call", `{"name":"x"}`); err != nil || !strings.Contains(got, `"content"`) {
		t.Errorf("the call: %s %v", got, err)
	}
	if n := lists.Load(); n > 2 {
		t.Errorf("%d pages were asked for", n)
	}
	if got, _ := say(t, session, 3, "tools/list", `{"cursor":"again"}`); !strings.Contains(got, `"nextCursor":""`) {
		t.Errorf("a client is led in a circle: %s", got)
	}
	if got, _ := say(t, session, 4, "tools/list", `{}`); !strings.Contains(got, `"nextCursor":"again"`) {
		t.Errorf("the first page: %s", got)
	}
}

// A list that is too long to be kept is asked for each time: it is neither taken
// for an empty one nor held for a server that sleeps.
func TestLongListsAreNotKept(t *testing.T) {
	for mib, why := range map[int]string{9: "at most 8388608 are passed on", 7: "too long to be kept", 1: ""} {
		kept := why == ""
		var starts atomic.Int64
		s := scriptedServer(t, &starts, nil, func() func(*jsonrpc.Message) string {
			return func(m *jsonrpc.Message) string {
				next := map[bool]string{true: "2"}[mib == 7 && !m.Param("cursor").Present()] // two pages
				return `{"protocolVersion":"2025-06-18","capabilities":{},"tools":[{"name":"x` + next +
					`","description":"` +
					strings.Repeat("y", mib<<20) + `","inputSchema":{"type":"object"}}],"nextCursor":"` + next + `"}`
			}
		})
		everything := identity.Identity{Tools: []string{"*"}}
		tools, err := s.Tools(t.Context(), everything)
		if kept != (err == nil && len(tools) == 1) {
			t.Errorf("%d MiB: %d tools, %v", mib, len(tools), err)
		}
		if !kept && (err == nil || !strings.Contains(err.Error(), why)) {
			t.Errorf("%d MiB: the reason is %v", mib, err)
		}
		s.Sleep()
		before := starts.Load()
		s.Tools(t.Context(), everything)
		if woken := starts.Load() > before; woken == kept {
			t.Errorf("%d MiB: asked again, woken: %t", mib, woken)
		}
	}
}

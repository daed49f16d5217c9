package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/hub/lifecycle"
	"github.com/sallyport-dev/sallyport/hub/pins"
	"github.com/sallyport-dev/sallyport/hub/upstream"
	"github.com/sallyport-dev/sallyport/internal/identity"
	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
	"github.com/sallyport-dev/sallyport/internal/mcphttp"
)

// counted is a picky server whose life is counted, with calls that wait.
type counted struct {
	*picky
	crowd *crowd
}

func (c *counted) Send(m upstream.Outgoing) error {
	if msg, err := jsonrpc.Parse(m.Raw); err == nil && msg.Text(msg.Param("name")) == "wait" {
		return nil
	}
	return c.picky.Send(m)
}

func (c *counted) Close() error {
	c.crowd.mu.Lock()
	defer c.crowd.mu.Unlock()
	delete(c.crowd.born, c)
	return c.picky.Close()
}

// crowd is servers that share a room for so many processes of 24 tasks.
type crowd struct {
	t     *testing.T
	room  *lifecycle.Room
	store *pins.Store

	mu   sync.Mutex
	born map[*counted]time.Time // of those alive
	peak int                    // how many they were at most
}

func (c *crowd) bear() *counted {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &counted{picky: &picky{lines: make(chan []byte, 10), gone: make(chan struct{})}, crowd: c}
	c.born[p] = time.Now()
	c.peak = max(c.peak, len(c.born))
	return p
}

// grown are the tasks of those that the room no longer takes for young, or soon will not.
func (c *crowd) grown() (tasks int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, born := range c.born {
		if time.Since(born) > 2*time.Second {
			tasks += 24
		}
	}
	return tasks
}

func newCrowd(t *testing.T, processes int) *crowd {
	t.Helper()
	c := &crowd{t: t, born: map[*counted]time.Time{}}
	var err error
	if c.store, err = pins.Open(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	// Each process is taken to need 24 while it is young.
	c.room = &lifecycle.Room{Count: func() (int, int) { return c.grown(), processes * 24 }}
	return c
}

func (c *crowd) server(name string, dial upstream.Dial) *lifecycle.Server {
	if dial == nil {
		dial = func(context.Context) (upstream.Conn, error) { return c.bear(), nil }
	}
	s := lifecycle.New(lifecycle.Config{Name: name, Most: 256, Hash: "h", Dial: dial, Store: c.store, Room: c.room, CallTimeout: time.Minute,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	c.t.Cleanup(s.Close)
	return s
}

// say sends one request in a session and returns the answer, or why it was not
// sent.
func say(t *testing.T, s *lifecycle.Session, id int, method, params string) (string, error) {
	t.Helper()
	m, err := jsonrpc.Parse(jsonrpc.Request(fmt.Sprint(id), method, []byte(params)))
	if err != nil {
		t.Fatal(err)
	}
	got := make(answers, 1)
	if _, err := s.Handle(t.Context(), mcphttp.Request{Message: m, Sink: got, Identity: identity.Identity{Tools: []string{"*"}}}); err != nil {
		return "", err
	}
	if strings.Contains(params, `"wait"`) {
		return "", nil
	}
	return <-got, nil
}

const hello = `{"protocolVersion":"2099-01-01","capabilities":{}}`

func quiet(*jsonrpc.Message, mcphttp.Sink) {}

// Room is counted over all servers: fourteen clients on three servers get their
// answers with room for four processes, all at once, and no call is lost.
func TestRoomIsSharedByAllServers(t *testing.T) {
	c := newCrowd(t, 4)
	var all sync.WaitGroup
	for _, name := range []string{"a", "b", "c"} {
		s := c.server(name, nil)
		for n := range 14 {
			all.Go(func() {
				session := s.Session(quiet)
				defer session.Close()
				for id, method := range []string{"initialize", "tools/list", "ping", "vendor/x", "vendor/y"} {
					got, err := say(t, session, id, method, hello)
					if err != nil || !strings.Contains(got, fmt.Sprintf(`"id":%d`, id)) || strings.Contains(got, `"error"`) {
						t.Errorf("%s, client %d, %s: %s %v", name, n, method, got, err)
					}
				}
			})
		}
	}
	all.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.peak > 4 {
		t.Errorf("%d processes at once", c.peak)
	}
}

// Where all are at work another one is refused with a message, and served as soon as
// one is idle.
func TestBusyIsSaid(t *testing.T) {
	undo := lifecycle.Impatient(100 * time.Millisecond)
	defer undo()
	c := newCrowd(t, 2)
	a, b := c.server("a", nil), c.server("b", nil)
	var working []*lifecycle.Session
	for range 2 {
		s := a.Session(quiet)
		working = append(working, s)
		if _, err := say(t, s, 1, "initialize", hello); err != nil {
			t.Fatal(err)
		}
		if _, err := say(t, s, 2, "tools/call", `{"name":"wait"}`); err != nil {
			t.Fatal(err)
		}
	}
	var state *lifecycle.StateError
	if _, err := say(t, b.Session(quiet), 1, "initialize", hello); !errors.As(err, &state) || state.State != "busy" || state.RetryIn() == 0 || !strings.Contains(err.Error(), "MCP_MAX_PROCESSES") {
		t.Errorf("got %v", err)
	}
	undo() // the place is free a moment after the end
	working[0].Close()
	if got, err := say(t, b.Session(quiet), 1, "initialize", hello); err != nil || !strings.Contains(got, "result") {
		t.Errorf("after one ended: %s %v", got, err)
	}
}

// The last look comes after the wait, however long a busy machine took for the one
// before: a start is not refused for what was so once.
func TestRoomIsLookedAtOnceMore(t *testing.T) {
	c := newCrowd(t, 2)
	var full atomic.Bool
	c.room.Count = func() (int, int) {
		if full.Swap(false) {
			time.Sleep(50 * time.Millisecond)
			return 1000, 1000
		}
		return 0, 1000
	}
	a := c.server("a", nil).Session(quiet)
	if _, err := say(t, a, 1, "initialize", hello); err != nil {
		t.Fatal(err)
	}
	if _, err := say(t, a, 2, "tools/call", `{"name":"wait"}`); err != nil { // its process works, and is not evicted
		t.Fatal(err)
	}
	defer lifecycle.Impatient(20 * time.Millisecond)()
	full.Store(true)
	if got, err := say(t, c.server("b", nil).Session(quiet), 1, "initialize", hello); err != nil || !strings.Contains(got, "result") {
		t.Errorf("with room again: %s %v", got, err)
	}
}

// An end because there is no room is no crash: the server is not parked. With room the
// same five ends park it.
func TestEndForWantOfRoomIsNoCrash(t *testing.T) {
	defer lifecycle.Hasten(time.Millisecond, time.Minute)()
	for _, cause := range []struct {
		name   string
		now    int
		reason error
		state  string
	}{
		{"room", 0, errors.New("it exited at once"), "parked"},
		{"no room", 970, errors.New("the server was ended by SIGABRT"), "asleep"},
		{"no memory", 0, upstream.ErrMemory, "asleep"},
	} {
		c := newCrowd(t, 0)
		c.room.Count = func() (int, int) { return cause.now, 1000 }
		s := c.server("s", func(context.Context) (upstream.Conn, error) { return ending{cause.reason}, nil })
		for range 6 {
			_ = greet(t, s)
			time.Sleep(2 * time.Millisecond)
		}
		if cause.name == "no memory" { // it backs off, as what fails does
			if got := s.Status().State; got == "parked" {
				t.Errorf("%s: %s", cause.name, got)
			}
			continue
		}
		time.Sleep(5 * time.Millisecond)
		if got := s.Status(); got.State != cause.state || cause.now > 0 && !strings.Contains(got.Reason, "no room") {
			t.Errorf("%s: %+v", cause.name, got)
		}
	}
}

type ending struct{ why error }

func (ending) Send(upstream.Outgoing) error { return nil }
func (e ending) Receive() ([]byte, error)   { return nil, e.why }
func (ending) Close() error                 { return nil }

// deaf is a server that answers initialize, and then answers no call; with a pulse it still
// answers pings.
type deaf struct {
	*picky
	pulse bool
}

func (d deaf) Send(m upstream.Outgoing) error {
	msg, err := jsonrpc.Parse(m.Raw)
	if err != nil || msg.Method == "tools/call" || msg.Method == "ping" && !d.pulse {
		return err
	}
	return d.picky.Send(m)
}

// A server that answers no ping after an expired call is replaced; one that only
// took too long is left alone.
func TestHungServerIsReplaced(t *testing.T) {
	for pulse, budget := range map[bool]time.Duration{false: 50 * time.Millisecond, true: time.Second} {
		defer lifecycle.Impatient(budget)()
		starts := atomic.Int64{}
		gone := make(chan struct{}, 10)
		c := newCrowd(t, 100)
		dial := func(context.Context) (upstream.Conn, error) {
			starts.Add(1)
			p := &picky{lines: make(chan []byte, 10), gone: make(chan struct{})}
			go func() { <-p.gone; gone <- struct{}{} }()
			return deaf{p, pulse}, nil
		}
		s := lifecycle.New(lifecycle.Config{Name: "s", Most: 4, Hash: "h", Dial: dial, Store: c.store, CallTimeout: time.Second,
			Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
		t.Cleanup(s.Close)
		session := s.Session(quiet)
		if _, err := say(t, session, 1, "initialize", hello); err != nil {
			t.Fatal(err)
		}
		if got, err := say(t, session, 2, "tools/call", `{"name":"x"}`); err != nil || !strings.Contains(got, "-32001") {
			t.Errorf("the call: %s %v", got, err)
		}
		if !pulse {
			<-gone
		} else {
			select {
			case <-gone:
				t.Error("a server that answers was ended")
			case <-time.After(budget + 200*time.Millisecond):
			}
		}
		if got, err := say(t, session, 3, "vendor/x", `{}`); err != nil || !strings.Contains(got, "result") {
			t.Errorf("the next call: %s %v", got, err)
		}
		if want := map[bool]int64{true: 1, false: 2}[pulse]; starts.Load() != want {
			t.Errorf("pulse %v: %d starts", pulse, starts.Load())
		}
	}
}

// What the owner should know of an entry is told with its failure: of npx, that
// it would download the server.
func TestFailureTellsTheEntrysWarnings(t *testing.T) {
	c := newCrowd(t, 100)
	s := lifecycle.New(lifecycle.Config{Name: "s", Most: 4, Hash: "h", Store: c.store, Warnings: []string{"npx would download the server"},
		Dial: func(context.Context) (upstream.Conn, error) {
			return ending{errors.New("the server exited with code 1")}, nil
		},
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	t.Cleanup(s.Close)
	if err := greet(t, s); err == nil || !strings.Contains(err.Error(), "code 1 (npx would download the server)") {
		t.Errorf("got %v", err)
	}
}

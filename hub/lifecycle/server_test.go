package lifecycle_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/hub/lifecycle"
	"github.com/sallyport-dev/sallyport/hub/pins"
	"github.com/sallyport-dev/sallyport/hub/upstream"
	"github.com/sallyport-dev/sallyport/internal/desk"
	"github.com/sallyport-dev/sallyport/internal/identity"
	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
	"github.com/sallyport-dev/sallyport/internal/mcphttp"
)

// dead is a connection whose server is gone, or says nothing.
type dead struct{ silent chan struct{} }

func (d dead) Send(upstream.Outgoing) error { return nil }

func (d dead) Receive() ([]byte, error) {
	if d.silent != nil {
		<-d.silent
	}
	return nil, errors.New("it exited at once")
}

func (d dead) Close() error { return nil }

func newServer(t *testing.T, dial upstream.Dial) *lifecycle.Server {
	t.Helper()
	st, err := pins.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := lifecycle.New(lifecycle.Config{Name: "s", Most: 4, Hash: "h", Dial: dial, Store: st, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	t.Cleanup(s.Close)
	return s
}

func greet(t *testing.T, s *lifecycle.Server) error {
	t.Helper()
	m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Session(nil).Handle(t.Context(), mcphttp.Request{Message: m, Identity: identity.Identity{Tools: []string{"*"}}})
	return err
}

// Five unasked ends in a row park a server; waking it forgets them.
func TestParkedAfterFiveCrashes(t *testing.T) {
	defer lifecycle.Hasten(time.Millisecond, time.Minute)()
	starts := 0
	s := newServer(t, func(context.Context) (upstream.Conn, error) { starts++; return dead{}, nil })
	for range 10 {
		var state *lifecycle.StateError
		if err := greet(t, s); !errors.As(err, &state) || !strings.Contains(err.Error(), "it exited at once") {
			t.Fatalf("got %v", err)
		}
	}
	if got := s.Status(); got.State != "parked" || starts != 5 {
		t.Errorf("%+v after %d starts", got, starts)
	}
	if err := greet(t, s); !strings.Contains(err.Error(), "parked") || !strings.Contains(err.Error(), "wake_server") {
		t.Errorf("a parked server says %v", err)
	}
	if err := s.Wake(t.Context()); err == nil || starts != 6 {
		t.Errorf("waking: %v after %d starts", err, starts)
	}
}

// A server that does not answer the handshake has failed when its time is up.
func TestWakeBudget(t *testing.T) {
	defer lifecycle.Hasten(time.Millisecond, 50*time.Millisecond)()
	s := newServer(t, func(context.Context) (upstream.Conn, error) {
		return &closing{dead: dead{make(chan struct{})}}, nil
	})
	if err := greet(t, s); err == nil || !strings.Contains(err.Error(), "no answer to initialize") {
		t.Errorf("got %v", err)
	}
}

type closing struct {
	dead
	once sync.Once
}

func (c *closing) Close() error {
	c.once.Do(func() { close(c.silent) })
	return nil
}

// A back-off that is longer than a request may wait is told, with its length.
func TestBackOffIsTold(t *testing.T) {
	defer lifecycle.Hasten(time.Hour, time.Minute)()
	starts := 0
	s := newServer(t, func(context.Context) (upstream.Conn, error) {
		starts++
		return nil, errors.New("no such program")
	})
	_ = greet(t, s)
	var state *lifecycle.StateError
	if err := greet(t, s); !errors.As(err, &state) || state.State != "backing off" || state.RetryAfter < time.Minute || starts != 1 {
		t.Errorf("got %v after %d starts", err, starts)
	}
}

// What asks and is refused at once leaves nothing behind in its session, however long
// its id is.
func TestRefusedQuestionsAreForgotten(t *testing.T) {
	c := newCrowd(t, 100)
	unattended := desk.New(nil, nil)
	unattended.Unattended()
	s := lifecycle.New(lifecycle.Config{Name: "s", Most: 4, Hash: "h", Store: c.store, Desk: unattended, Log: slog.New(slog.DiscardHandler),
		Dial: func(context.Context) (upstream.Conn, error) { return c.bear(), nil }})
	t.Cleanup(s.Close)
	session := s.Session(quiet)
	if _, err := say(t, session, 0, "initialize", hello); err != nil {
		t.Fatal(err)
	}
	asks := identity.Identity{Tools: []string{"*"}, Ask: []string{"*"}}
	for n := range 2000 {
		m, err := jsonrpc.Parse(jsonrpc.Request(strconv.Itoa(n+1), "tools/call", []byte(`{"name":"x"}`)))
		if err != nil {
			t.Fatal(err)
		}
		got := make(answers, 1)
		if _, err := session.Handle(t.Context(), mcphttp.Request{Message: m, Sink: got, Identity: asks}); err != nil {
			t.Fatal(err)
		}
		if raw := <-got; !strings.Contains(raw, "isError") {
			t.Fatal(raw)
		}
	}
	for end := time.Now().Add(20 * time.Second); lifecycle.Waiting(session) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d refused calls are remembered", lifecycle.Waiting(session))
		}
	}
}

// lazy is a picky server that ends when it is let go.
type lazy struct {
	*picky
	closing chan<- *lazy
	let     <-chan struct{}
	told    sync.Once
}

func (l *lazy) Close() error {
	l.told.Do(func() { l.closing <- l })
	<-l.let
	return l.picky.Close()
}

// Clients that come at the same time each take another idle one's place: were it
// the same for all, there would be more processes than may be.
func TestEachNewClientTakesAPlaceOfItsOwn(t *testing.T) {
	closing, let := make(chan *lazy, 10), make(chan struct{})
	s := newServer(t, func(context.Context) (upstream.Conn, error) {
		return &lazy{picky: &picky{lines: make(chan []byte, 10), gone: make(chan struct{})}, closing: closing, let: let}, nil
	})
	open := func() {
		m, _ := jsonrpc.Parse(jsonrpc.Request("1", "initialize", []byte(`{"protocolVersion":"2099-01-01","capabilities":{}}`)))
		req := mcphttp.Request{Message: m, Sink: make(answers, 1), Identity: identity.Identity{Tools: []string{"*"}}}
		if _, err := s.Session(func(*jsonrpc.Message, mcphttp.Sink) {}).Handle(t.Context(), req); err != nil {
			t.Error(err)
		}
	}
	for range 4 {
		open()
	}
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(open)
	}
	for n := range 3 {
		select {
		case <-closing:
		case <-time.After(time.Minute):
			t.Errorf("for three new clients %d are evicted", n)
		}
	}
	close(let)
	wait.Wait()
}

// picky is a server that refuses a handshake without capabilities.
type picky struct {
	lines chan []byte
	gone  chan struct{}
	once  sync.Once
}

func (p *picky) Send(m upstream.Outgoing) error {
	msg, err := jsonrpc.Parse(m.Raw)
	switch {
	case err != nil || !msg.IsRequest():
	case msg.Method == "initialize" && !msg.Param("capabilities").Present():
		p.lines <- jsonrpc.Fault(msg.ID(), jsonrpc.InvalidParams, "capabilities are missing")
	default:
		p.lines <- jsonrpc.Answer(msg.ID(), []byte(`{"protocolVersion":"2025-06-18","tools":[]}`))
	}
	return err
}

func (p *picky) Receive() ([]byte, error) {
	select {
	case line := <-p.lines:
		return line, nil
	case <-p.gone:
		return nil, upstream.ErrClosed
	}
}

func (p *picky) Close() error {
	p.once.Do(func() { close(p.gone) })
	return nil
}

type answers chan string

func (a answers) Deliver(raw []byte, final bool) {
	if final {
		a <- string(raw)
	}
}

// The first client initialises a shared server for everybody. Words that the server
// refuses must not shut out whoever comes next.
func TestRefusedHandshakeIsNotShared(t *testing.T) {
	st, err := pins.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dial := func(context.Context) (upstream.Conn, error) {
		return &picky{lines: make(chan []byte, 10), gone: make(chan struct{})}, nil
	}
	s := lifecycle.New(lifecycle.Config{Name: "s", Most: 4, Hash: "h", Shared: true, Dial: dial, Store: st, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	t.Cleanup(s.Close)
	for _, hello := range []string{`{"protocolVersion":"2025-06-18"}`, `{"protocolVersion":"2025-06-18","capabilities":{}}`} {
		m, err := jsonrpc.Parse(jsonrpc.Request("1", "initialize", []byte(hello)))
		if err != nil {
			t.Fatal(err)
		}
		got := make(answers, 1)
		session := s.Session(func(*jsonrpc.Message, mcphttp.Sink) {})
		if _, err := session.Handle(t.Context(), mcphttp.Request{Message: m, Sink: got, Identity: identity.Identity{Tools: []string{"*"}}}); err != nil {
			t.Fatal(err)
		}
		if raw := <-got; !strings.Contains(raw, `"result"`) {
			t.Errorf("%s: %s", hello, raw)
		}
	}
}

package server_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/sandboxd/hub/server"
	"github.com/sallyport-dev/sallyport/sandboxd/hub/store"
	"github.com/sallyport-dev/sallyport/sandboxd/rpc"
	"github.com/sallyport-dev/sallyport/sandboxd/shared"
	"github.com/sallyport-dev/sallyport/sandboxd/upstream"
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

func newServer(t *testing.T, dial upstream.Dial) *server.Server {
	t.Helper()
	st, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(server.Config{Name: "s", Most: 4, Hash: "h", Dial: dial, Store: st, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	t.Cleanup(s.Close)
	return s
}

func greet(t *testing.T, s *server.Server) error {
	t.Helper()
	m, err := rpc.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Session(nil).Handle(t.Context(), server.Request{Message: m, Identity: shared.Identity{Tools: []string{"*"}}})
	return err
}

// Five unasked ends in a row park a server; waking it forgets them.
func TestParkedAfterFiveCrashes(t *testing.T) {
	defer server.Hasten(time.Millisecond, time.Minute)()
	starts := 0
	s := newServer(t, func(context.Context) (upstream.Conn, error) { starts++; return dead{}, nil })
	for range 10 {
		var state *server.StateError
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
	defer server.Hasten(time.Millisecond, 50*time.Millisecond)()
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
	defer server.Hasten(time.Hour, time.Minute)()
	starts := 0
	s := newServer(t, func(context.Context) (upstream.Conn, error) {
		starts++
		return nil, errors.New("no such program")
	})
	_ = greet(t, s)
	var state *server.StateError
	if err := greet(t, s); !errors.As(err, &state) || state.State != "backing off" || state.RetryAfter < time.Minute || starts != 1 {
		t.Errorf("got %v after %d starts", err, starts)
	}
}

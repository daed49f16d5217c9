package lifecycle_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/hub/lifecycle"
	"github.com/sallyport-dev/sallyport/hub/upstream"
	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
)

// mum is deaf to tools/list too.
type mum struct{ deaf }

func (m mum) Send(out upstream.Outgoing) error {
	if msg, err := jsonrpc.Parse(out.Raw); err != nil || msg.Method == "tools/list" {
		return err
	}
	return m.deaf.Send(out)
}

// A server that hangs before it has listed its tools is replaced too, although none of
// its calls, which wait for that list, ever runs; one that answers a ping is left alone.
func TestServerThatHangsAtItsListIsReplaced(t *testing.T) {
	defer lifecycle.ListWithin(100 * time.Millisecond)()
	for _, pulse := range []bool{false, true} {
		defer lifecycle.Impatient(map[bool]time.Duration{false: 100 * time.Millisecond, true: time.Minute}[pulse])()
		starts, gone := atomic.Int64{}, make(chan struct{})
		c := newCrowd(t, 100)
		dial := func(context.Context) (upstream.Conn, error) {
			p := &picky{lines: make(chan []byte, 10), gone: make(chan struct{})}
			if starts.Add(1) > 1 {
				return p, nil
			}
			go func() { <-p.gone; close(gone) }()
			return mum{deaf{p, pulse}}, nil
		}
		if _, err := c.store.Pin("s", map[string]json.RawMessage{"x": json.RawMessage(`{"name":"x"}`)}, true); err != nil {
			t.Fatal(err)
		}
		s := lifecycle.New(lifecycle.Config{Name: "s", Most: 4, Hash: "h", Dial: dial, Store: c.store, CallTimeout: 5 * time.Second,
			Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
		t.Cleanup(s.Close)
		session := s.Session(quiet)
		if _, err := say(t, session, 1, "initialize", hello); err != nil {
			t.Fatal(err)
		}
		if got, err := say(t, session, 2, "tools/call", `{"name":"x"}`); err != nil || !strings.Contains(got, "did not answer tools/list") {
			t.Errorf("pulse %v: %s %v", pulse, got, err)
		}
		if !pulse {
			select {
			case <-gone:
			case <-time.After(10 * time.Second):
				t.Error("it was not ended")
			}
		}
		if got, err := say(t, session, 3, "tools/call", `{"name":"x"}`); err != nil || strings.Contains(got, "result") == pulse {
			t.Errorf("pulse %v, the next call: %s %v", pulse, got, err)
		}
	}
}

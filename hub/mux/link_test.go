package mux_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/hub/mux"
	"github.com/sallyport-dev/sallyport/hub/upstream"
	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
	"github.com/sallyport-dev/sallyport/internal/mcphttp"
)

// mute is a server that hears everything and says nothing.
type mute chan struct{}

func (m mute) Send(upstream.Outgoing) error { return nil }

func (m mute) Receive() ([]byte, error) {
	<-m
	return nil, upstream.ErrClosed
}

func (m mute) Close() error { return nil }

type client struct{ name string }

func (*client) Push(*jsonrpc.Message, mcphttp.Sink) {}
func (*client) Supports(string) bool                { return false }
func (*client) Deliver([]byte, bool)                {}

// What a client subscribes to takes bounded memory, and none once it is gone.
func TestSubscriptionsAreBounded(t *testing.T) {
	conn := make(mute)
	l := mux.New(conn, mux.Options{Ended: func(*mux.Link, error) {}})
	defer close(conn)
	who := &client{"a"}
	subscribe := func(uri string) {
		params, _ := json.Marshal(map[string]string{"uri": uri})
		m, err := jsonrpc.Parse(jsonrpc.Request("1", "resources/subscribe", params))
		if err == nil {
			err = l.Start(&mux.Call{Message: m, Client: who, Sink: who})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	subscribe("file:///" + strings.Repeat("x", 8<<10))
	if n := mux.Subscriptions(l); n != 0 {
		t.Errorf("a URI of 8 KiB is remembered")
	}
	for n := range 11000 {
		subscribe(fmt.Sprintf("file:///%d", n))
	}
	if n := mux.Subscriptions(l); n != 10000 {
		t.Errorf("%d subscriptions are remembered", n)
	}
	l.Detach(who)
	if n := mux.Subscriptions(l); n != 0 {
		t.Errorf("%d subscriptions of nobody are remembered", n)
	}
}

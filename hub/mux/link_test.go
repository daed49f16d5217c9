package mux_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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

// asking is a server that asks with the ids that it is given.
type asking struct {
	mute
	lines chan string
	sent  chan string
}

func (a asking) Send(m upstream.Outgoing) error {
	a.sent <- string(m.Raw)
	return nil
}

func (a asking) Receive() ([]byte, error) {
	if line, ok := <-a.lines; ok {
		return []byte(line), nil
	}
	return nil, upstream.ErrClosed
}

type willing struct{ client }

func (*willing) Supports(string) bool { return true }

// What a server asks is remembered until it is answered: ids take bounded memory.
func TestAskedIdsAreBounded(t *testing.T) {
	conn := asking{lines: make(chan string), sent: make(chan string, 10)}
	l := mux.New(conn, mux.Options{Ended: func(*mux.Link, error) {}})
	defer close(conn.lines)
	who := &willing{}
	m, err := jsonrpc.Parse(jsonrpc.Request("1", "ping", []byte("{}")))
	if err == nil {
		err = l.Start(&mux.Call{Message: m, Client: who, Sink: who})
	}
	if err != nil {
		t.Fatal(err)
	}
	<-conn.sent
	ask := func(id string) { conn.lines <- `{"jsonrpc":"2.0","id":"` + id + `","method":"sampling/createMessage"}` }
	ask(strings.Repeat("x", 8<<10))
	if fault := <-conn.sent; !strings.Contains(fault, "error") || mux.Asked(l) != 0 {
		t.Errorf("an id of 8 KiB is remembered; the server was told %.100s", fault)
	}
	ask("short")
	ask("another")
	conn.lines <- `{"jsonrpc":"2.0","method":"notifications/message"}` // so that both were taken
	if n := mux.Asked(l); n != 2 {
		t.Errorf("twin: %d of two short ids are remembered", n)
	}
}

// endless is a server that says one line over and over, and counts how often.
type endless struct {
	mute
	line  string
	lines atomic.Int64
}

func (e *endless) Receive() ([]byte, error) {
	select {
	case <-e.mute:
		return nil, upstream.ErrClosed
	default:
		e.lines.Add(1)
		return []byte(e.line), nil
	}
}

// A server that talks without end is read at a bounded pace, so that it leaves the
// processor to others, whatever it says.
func TestTalkIsPaced(t *testing.T) {
	for _, line := range []string{
		`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, `{"jsonrpc":"2.0","id":"x","method":"ping"}`, "no JSON",
		`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":""}}`, "", " ",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			conn := &endless{mute: make(mute), line: line}
			l := mux.New(conn, mux.Options{Ended: func(*mux.Link, error) {}, Log: slog.New(slog.DiscardHandler)})
			begin := time.Now()
			time.Sleep(200 * time.Millisecond)
			n, seconds := conn.lines.Load(), 1+int64(time.Since(begin)/time.Second)
			most := int64(2000)
			if len(line) < 20 { // it costs less
				most = 32_000
			}
			if n > (seconds+1)*most+1 {
				t.Errorf("%d lines were read in %d s", n, seconds)
			}
			close(conn.mute)
			l.Close()
		})
	}
}

// The twin of the test above: answers that somebody waits for are not slowed, each once.
func TestAnswersAreNotPaced(t *testing.T) {
	conn := make(mute)
	l := mux.New(conn, mux.Options{Ended: func(*mux.Link, error) {}})
	defer close(conn)
	who := &client{"a"}
	m, err := jsonrpc.Parse(jsonrpc.Request("7", "ping", []byte("{}")))
	if err == nil {
		err = l.Start(&mux.Call{Message: m, Client: who, Sink: who})
	}
	if err != nil {
		t.Fatal(err)
	}
	answer := []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	if !mux.Answers(l, answer) || mux.Answers(l, answer) {
		t.Error("the first answer is paced, or the second is not")
	}
}

// jammed is a server whose pipe takes a call only when its client has been told
// something, and breaks then.
type jammed struct {
	mute
	told chan []byte
}

func (j jammed) Send(m upstream.Outgoing) error {
	if strings.Contains(string(m.Raw), "cancelled") {
		return nil
	}
	j.told <- <-j.told
	return upstream.ErrClosed
}

func (j jammed) Deliver(raw []byte, final bool) {
	if final {
		j.told <- raw
	}
}

// A call whose deadline passes while it is sent is answered, and not refused as well when
// sending fails: its client would have two answers.
func TestExpiredCallIsAnsweredOnce(t *testing.T) {
	conn := jammed{make(mute), make(chan []byte, 2)}
	l := mux.New(conn, mux.Options{Ended: func(*mux.Link, error) {}})
	defer close(conn.mute)
	m, err := jsonrpc.Parse(jsonrpc.Request("7", "ping", []byte("{}")))
	if err == nil {
		err = l.Start(&mux.Call{Message: m, Client: &client{"a"}, Sink: conn, Timeout: time.Millisecond})
	}
	if answer := <-conn.told; err != nil || !strings.Contains(string(answer), "did not end within 1ms") {
		t.Errorf("%s, and %v", answer, err)
	}
}

// logged counts the records of a log, and the longest.
type logged struct {
	slog.Handler
	records, longest atomic.Int64
}

func (l *logged) Handle(_ context.Context, r slog.Record) error {
	size := int64(0)
	r.Attrs(func(a slog.Attr) bool { size += int64(len(a.Value.String())); return true })
	l.records.Add(1)
	l.longest.Store(max(l.longest.Load(), size))
	return nil
}

func (*logged) Enabled(context.Context, slog.Level) bool { return true }

// A server whose log messages belong to nobody fills no disk with them: neither by
// their number nor by their length. A single one is logged.
func TestLogMessagesAreBounded(t *testing.T) {
	for _, line := range []string{`"info","data":"x"`, `"` + strings.Repeat("l", 100_000) + `","data":"` + strings.Repeat("d", 100_000) + `"`} {
		log := &logged{Handler: slog.DiscardHandler}
		conn := &endless{mute: make(mute), line: `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":` + line + `}}`}
		l := mux.New(conn, mux.Options{Ended: func(*mux.Link, error) {}, Log: slog.New(log)})
		begin := time.Now()
		for conn.lines.Load() < 300 {
			time.Sleep(10 * time.Millisecond)
		}
		n, seconds := log.records.Load(), 1+int64(time.Since(begin)/time.Second)
		if n == 0 || n > (seconds+1)*upstream.MaxLogged {
			t.Errorf("%d lines were logged in %d s", n, seconds)
		}
		if n := log.longest.Load(); n > 1100 {
			t.Errorf("a record of %d bytes", n)
		}
		close(conn.mute)
		l.Close()
	}
}

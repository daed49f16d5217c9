package service_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/approval"
	"github.com/sallyport-dev/sallyport/internal/desk"
)

// ways are those to call the tool "echo" or "wait" of the server "s".
var ways = map[string]struct{ transport, server, call string }{
	"streamable": {"mcp", "s", `{"name":%q,"arguments":{"x":1}}`},
	"sse":        {"sse", "s", `{"name":%q,"arguments":{"x":1}}`},
	"stateless":  {"stateless", "s", `{"name":%q,"arguments":{"x":1}}`},
	"aggregate":  {"mcp", "", `{"name":"call_tool","arguments":{"server":"s","tool":%q,"arguments":{"x":1}}}`},
}

func eachWay(t *testing.T, ask string, test func(t *testing.T, b *bench, l *listener, call func(tool string) <-chan string, c client)) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			l, entry := listen(t, "unix")
			b := start(t, map[string]string{"s": entry}, nil)
			h := as("token:poke", "s/echo,s/wait")
			if ask != "" {
				h.Set("X-Sallyport-Ask", ask)
			}
			c := b.dial(way.transport, way.server, h)
			n := 10
			test(t, b, l, func(tool string) <-chan string {
				n++
				id, done := fmt.Sprint(n), make(chan string, 1)
				go func() { done <- c.call(id, "tools/call", fmt.Sprintf(way.call, tool)) }()
				return done
			}, c)
		})
	}
}

func (b *bench) waiting() (w approval.Waiting) {
	b.t.Helper()
	eventually(b.t, "the call waits", func() bool {
		list := b.desk.Waiting()
		if len(list) == 1 {
			w = list[0]
		}
		return len(list) == 1
	})
	return w
}

// A call that asks waits for the owner, on every way to a tool, and reaches its
// server only if it is approved.
func TestAsk(t *testing.T) {
	eachWay(t, "s/echo", func(t *testing.T, b *bench, l *listener, call func(string) <-chan string, c client) {
		done := call("echo")
		w := b.waiting()
		if w.Server != "s" || w.Tool != "echo" || w.Principal != "token:poke" || w.Arguments != `{"x":1}` || l.heard("tools/call") {
			t.Errorf("the question: %+v, called %v", w, l.heard("tools/call"))
		}
		if err := b.desk.Decide(approval.Decision{ID: w.ID, Reason: "not today"}); err != nil {
			t.Fatal(err)
		}
		if got := <-done; !strings.Contains(got, "not today") || !strings.Contains(got, `"isError":true`) || l.heard("tools/call") {
			t.Errorf("denied: %s, called %v", got, l.heard("tools/call"))
		}
		done = call("echo")
		if err := b.desk.Decide(approval.Decision{ID: b.waiting().ID, Approve: true}); err != nil {
			t.Fatal(err)
		}
		if got := <-done; !strings.Contains(got, `"result"`) || strings.Contains(got, `"isError":true`) || l.times("tools/call") != 1 {
			t.Errorf("approved: %s, called %d times", got, l.times("tools/call"))
		}
		a := b.audit.String()
		for _, want := range []string{`"verdict":"denied"`, `"outcome":"approved"`, `"verdict":"ok"`} {
			if strings.Count(a, want) != 1 {
				t.Errorf("the audit has %d of %s: %s", strings.Count(a, want), want, a)
			}
		}
	})
}

// While a call waits its session goes on, and the client may take it back.
func TestSessionGoesOnWhileACallWaits(t *testing.T) {
	_, entry := listen(t, "unix")
	b := start(t, map[string]string{"s": entry}, nil)
	h := as("token:poke", "s/*")
	h.Set("X-Sallyport-Ask", "s/echo")
	c := b.dial("sse", "s", h)
	c.send(`{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"echo","arguments":{}}}`)
	b.waiting()
	if got := c.call("8", "tools/list", `{}`); !strings.Contains(got, `"result"`) {
		t.Errorf("a list meanwhile: %s", got)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}`)
	eventually(t, "the call is taken back", func() bool { return strings.Contains(b.audit.String(), `"verdict":"canceled"`) })
	if held := b.waiting().Held; held != 0 {
		t.Errorf("%d calls are held", held)
	}
}

// Pause and stop, with a message, on every way. The server is told of the stop.
func TestPauseAndStop(t *testing.T) {
	eachWay(t, "", func(t *testing.T, b *bench, l *listener, call func(string) <-chan string, c client) {
		b.desk.Pause("", "lunch")
		if got := <-call("echo"); !strings.Contains(got, "paused") || !strings.Contains(got, "lunch") || l.heard("tools/call") {
			t.Errorf("paused: %s", got)
		}
		if err := b.desk.Resume(""); err != nil {
			t.Fatal(err)
		}
		done := call("wait")
		var e desk.Entry
		eventually(t, "the call runs", func() bool {
			list := b.desk.Running()
			if len(list) == 1 {
				e = list[0]
			}
			return l.heard("tools/call") && len(list) == 1
		})
		if e.Server != "s" || e.Tool != "wait" {
			t.Errorf("%+v", e)
		}
		if err := b.desk.Stop(e.ID, true); err != nil {
			t.Fatal(err)
		}
		if got := <-done; !strings.Contains(got, "owner stopped") {
			t.Errorf("stopped: %s", got)
		}
		eventually(t, "the server is told", func() bool { return l.heard("notifications/cancelled") })
		if !strings.Contains(b.audit.String(), `"verdict":"stopped"`) {
			t.Errorf("audit: %s", b.audit)
		}
	})
}

// Refused calls, and the aggregate's own tools, are on the record.
func TestRecords(t *testing.T) {
	_, entry := listen(t, "unix")
	b := start(t, map[string]string{"s": entry}, nil)
	c := b.dial("mcp", "s", as("token:poke", "s/echo"))
	c.call("1", "tools/call", `{"name":"wait","arguments":{}}`)
	all := b.dial("mcp", "", as("token:poke", "s/echo"))
	all.call("2", "tools/call", `{"name":"list_servers","arguments":{}}`)
	a := b.audit.String()
	for _, want := range []string{`"kind":"refused"`, `"verdict":"not_granted"`, `"tool":"list_servers"`, `"session":"`} {
		if !strings.Contains(a, want) {
			t.Errorf("the audit lacks %s: %s", want, a)
		}
	}
}

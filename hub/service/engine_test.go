package service_test

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/hub/service"
)

// everywhere runs a test for each way to a server and each transport.
func everywhere(t *testing.T, transports []string, run func(t *testing.T, b *bench, transport string)) {
	for _, kind := range []string{"unix", "tcp", "stdio", "docker"} {
		for _, transport := range transports {
			t.Run(kind+" "+transport, func(t *testing.T) {
				entry, change := "", func(*service.Settings) {}
				switch kind {
				case "stdio":
					entry = stdio("")
				case "docker":
					_, socket := proxy(t)
					entry, change = docker, func(s *service.Settings) { s.ProxySocket = socket }
				default:
					_, entry = listen(t, kind)
				}
				run(t, start(t, map[string]string{"s": entry}, change), transport)
			})
		}
	}
}

var allTransports = []string{"mcp", "sse", "stateless"}

// What the server sends is what the client gets, whatever it is.
func TestBytesStayAsTheyAre(t *testing.T) {
	everywhere(t, allTransports, func(t *testing.T, b *bench, transport string) {
		c := b.dial(transport, "s", nil)
		for id, want := range map[string]string{
			"12345678901234567890": `{"content":[{"type":"x-unknown","v":12345678901234567890}],"structuredContent":{"n":12345678901234567890,"s":"<&\u00e4>"}}`,
			`"a"`:                  `{"content":[{"type":"x-unknown","v":12345678901234567890}],"structuredContent":{"n":12345678901234567890,"s":"<&\u00e4>"}}`,
		} {
			got := c.call(id, "tools/call", `{"name":"echo","arguments":{"n":12345678901234567890,"s":"<&\u00e4>"}}`)
			if got != `{"jsonrpc":"2.0","id":`+id+`,"result":`+want+`}` {
				t.Errorf("got %s", got)
			}
		}
		if got := c.call("7", "vendor/thing", `{"q":1.50}`); !strings.Contains(got, `"q":1.50}`) || !strings.Contains(got, `"big":12345678901234567890,"e":1.0e2}`) {
			t.Errorf("an unknown method came back as %s", got)
		}
		if got := c.call("8", "no/such", `{}`); !strings.Contains(got, `"code":-32601`) || !strings.Contains(got, `{"x":9007199254740993}`) {
			t.Errorf("an error came back as %s", got)
		}
	})
}

// Fifty clients with the same ids at the same time: each sees only its own.
func TestClientsWithEqualIDs(t *testing.T) {
	everywhere(t, allTransports, func(t *testing.T, b *bench, transport string) {
		clients, calls := 50, 10
		if strings.Contains(t.Name(), "stdio") {
			clients = 8 // each has a process of its own
		}
		var wait sync.WaitGroup
		for n := range clients {
			c := b.dial(transport, "s", nil)
			wait.Go(func() {
				for id := range calls {
					mine := fmt.Sprintf(`{"client":%d,"call":%d}`, n, id)
					if got := c.call(fmt.Sprint(id), "tools/call", `{"name":"echo","arguments":`+mine+`}`); !strings.HasSuffix(got, `"structuredContent":`+mine+`}}`) {
						t.Errorf("client %d, call %d got %s", n, id, got)
					}
				}
			})
		}
		wait.Wait()
	})
}

// A request of the server reaches the client whose call it serves, and the
// answer of that client the server.
func TestServerAsksTheRightClient(t *testing.T) {
	everywhere(t, []string{"mcp", "sse"}, func(t *testing.T, b *bench, transport string) {
		one, other := b.dial(transport, "s", nil), b.dial(transport, "s", nil)
		other.call("1", "tools/call", `{"name":"echo","arguments":{}}`)
		done := make(chan string, 1)
		go func() { done <- one.call("1", "tools/call", `{"name":"ask","arguments":{}}`) }()
		if got := one.next(); got != `{"jsonrpc":"2.0","id":"ask","method":"sampling/createMessage","params":{"n":12345678901234567890}}` {
			t.Errorf("the client was asked %s", got)
		}
		other.send(`{"jsonrpc":"2.0","id":"ask","result":{"by":"another"}}`)
		one.send(`{"jsonrpc":"2.0","id":"ask","result":{"by":"the right one"}}`)
		if got := <-done; !strings.Contains(got, "the right one") {
			t.Errorf("the server heard %s", got)
		}
	})
}

// Where it cannot be known who is concerned, nobody is.
func TestSharedServerAsksNobodyInDoubt(t *testing.T) {
	for _, c := range [][2]string{{"mcp", "mcp"}, {"mcp", "stateless"}, {"stateless", "mcp"}} {
		l, socket := proxy(t)
		b := start(t, map[string]string{"s": docker}, func(s *service.Settings) { s.ProxySocket = socket })
		one, other := b.dial(c[0], "s", nil), b.dial(c[1], "s", nil)
		go other.call("1", "tools/call", `{"name":"wait","arguments":{}}`)
		eventually(t, "the other's call runs", func() bool { return l.heard("tools/call") })
		if got := one.call("1", "tools/call", `{"name":"ask","arguments":{}}`); !strings.Contains(got, "no client here can answer") {
			t.Errorf("%v: got %s", c, got)
		}
	}
}

// Progress comes with the client's own token; cancellation and a vanished
// client reach the server.
func TestProgressAndCancellation(t *testing.T) {
	for _, transport := range allTransports {
		t.Run(transport, func(t *testing.T) {
			l, entry := listen(t, "unix")
			b := start(t, map[string]string{"s": entry}, nil)
			c := b.dial(transport, "s", nil)
			meta := `"_meta":{"progressToken":"mine"},`
			if transport == "stateless" {
				meta = ""
			}
			go c.call("5", "tools/call", `{`+meta+`"name":"wait","arguments":{}}`)
			if meta != "" {
				if got := c.next(); !strings.Contains(got, `"progressToken":"mine"`) {
					t.Errorf("progress came as %s", got)
				}
				c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5,"reason":"x"}}`)
				eventually(t, "the server hears of the cancellation", func() bool { return l.heard("notifications/cancelled") })
				return
			}
			eventually(t, "the call runs", func() bool { return l.heard("tools/call") })
			c.close()
			eventually(t, "the server hears that the client left", func() bool { return l.heard("notifications/cancelled") })
		})
	}
}

// In the shared era a log line belongs to the only request that asked for it,
// and with two of them to nobody.
func TestLogsNeverReachAnother(t *testing.T) {
	l, socket := proxy(t)
	b := start(t, map[string]string{"s": docker}, func(s *service.Settings) { s.ProxySocket = socket })
	one, other := b.dial("sse", "s", nil).(*session), b.dial("sse", "s", nil).(*session)
	other.call("1", "tools/call", `{"name":"echo","arguments":{}}`)
	one.call("1", "tools/call", `{"name":"log","arguments":{"secret":"of one"}}`)
	one.call("2", "tools/call", `{"name":"echo","arguments":{}}`)
	other.call("2", "tools/call", `{"name":"echo","arguments":{}}`)
	for _, c := range []*session{one, other} {
		select {
		case got := <-c.unasked:
			t.Errorf("a client got %s", got)
		default:
		}
	}
	// Nor do they reach a stateless call that asked for its own, and runs meanwhile.
	stateless := b.dial("stateless", "s", nil).(*session)
	go stateless.post("tools/call", "wait", `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"wait","arguments":{},"_meta":{"io.modelcontextprotocol/logLevel":"debug",`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
	eventually(t, "the stateless call runs", func() bool { return l.times("tools/call") == 5 })
	one.call("3", "tools/call", `{"name":"log","arguments":{"secret":"of one"}}`)
	one.call("4", "tools/call", `{"name":"echo","arguments":{}}`)
	select {
	case got := <-stateless.unasked:
		t.Errorf("the stateless client got %s", got)
	case <-time.After(100 * time.Millisecond): // no longer than what it would take on a quiet machine
	}
	// With a process of its own, a client gets its log lines.
	_, entry := listen(t, "unix")
	b = start(t, map[string]string{"s": entry}, nil)
	c := b.dial("sse", "s", nil)
	c.call("1", "tools/call", `{"name":"log","arguments":{"secret":"mine"}}`)
	if got := c.next(); !strings.Contains(got, `{"secret":"mine"}`) {
		t.Errorf("got %s", got)
	}
}

// Progress that nobody asked for has no token to be given back, and is no
// reason to send a client what is not JSON.
func TestUnaskedProgressIsDropped(t *testing.T) {
	_, entry := listen(t, "unix")
	b := start(t, map[string]string{"s": entry}, nil)
	c := b.dial("mcp", "s", nil).(*session)
	c.call("1", "tools/list", `{}`)
	resp := b.do("POST", c.path, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"progress","arguments":{}}}`, c.header.Clone())
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if !strings.Contains(string(body), "unasked") || strings.Contains(string(body), "notifications/progress") {
		t.Errorf("got %s", body)
	}
}

// Two calls of one client under way with one id are both answered.
func TestEqualIDsOfOneClient(t *testing.T) {
	_, entry := listen(t, "unix")
	b := start(t, map[string]string{"s": entry}, nil)
	c := b.dial("sse", "s", nil)
	for _, x := range []string{"1", "2"} {
		c.send(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"x":` + x + `}}}`)
	}
	got := c.next() + c.next()
	for _, x := range []string{"1", "2"} {
		if !strings.Contains(got, `{"x":`+x+`}`) || strings.Count(got, `"id":7`) != 2 {
			t.Errorf("x=%s: %s", x, got)
		}
	}
}

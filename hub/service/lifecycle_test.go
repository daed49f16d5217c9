package service_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/hub/service"
	"github.com/sallyport-dev/sallyport/jail"
)

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// A client that only looks wakes nobody: handshake, list and ping come from a
// snapshot, which survives the hub and not an edit of the entry.
func TestSleepingServerAnswersFromSnapshot(t *testing.T) {
	for _, transport := range allTransports {
		t.Run(transport, func(t *testing.T) {
			l, entry := listen(t, "unix")
			b := start(t, map[string]string{"s": entry}, nil)
			look := func() string {
				c := b.dial(transport, "s", nil)
				if transport == "stateless" {
					c.call("1", "server/discover", `{}`)
				} else {
					c.call("1", "ping", `{}`)
				}
				defer c.close()
				return c.call("2", "tools/list", `{}`)
			}
			first := look()
			if transport == "stateless" {
				b.dial("mcp", "", nil).call("1", "tools/call", `{"name":"sleep_server","arguments":{"server":"s"}}`)
			}
			eventually(t, "it sleeps", func() bool { state, _ := b.status("s"); return state == "asleep" })
			woken := l.count()
			if second := look(); second != first || l.count() != woken {
				t.Errorf("asleep: %s, awake: %s, woken %d times more", second, first, l.count()-woken)
			}
			b.Close()
			b2 := *start(t, nil, func(s *service.Settings) { s.StateDir, s.ServersFile = b.state, b.config })
			b = &b2
			if third := look(); third != first || l.count() != woken {
				t.Errorf("after a restart: %s, woken %d times more", third, l.count()-woken)
			}
			if got := b.dial(transport, "s", nil).call("3", "tools/call", `{"name":"echo","arguments":{"x":1}}`); !strings.Contains(got, `{"x":1}`) || l.count() != woken+1 {
				t.Errorf("a call: %s, woken %d times more", got, l.count()-woken)
			}
		})
	}
}

// An unused server sleeps, one that is kept alive does not, and a session
// outlives the sleep of its server.
func TestIdle(t *testing.T) {
	l, entry := listen(t, "unix")
	k, kept := listen(t, "unix")
	b := start(t, map[string]string{"s": strings.Replace(entry, "{", `{"idleMinutes":0.01,`, 1),
		"kept": strings.Replace(kept, "{", `{"keepAlive":true,"idleMinutes":0.01,`, 1)}, nil)
	eventually(t, "the kept one runs", func() bool { state, _ := b.status("kept"); return state == "running" })
	c := b.dial("sse", "s", nil)
	for range 2 {
		if got := c.call("1", "tools/call", `{"name":"echo","arguments":{"x":1}}`); !strings.Contains(got, `{"x":1}`) {
			t.Fatalf("got %s", got)
		}
		eventually(t, "it sleeps", func() bool { state, _ := b.status("s"); return state == "asleep" })
	}
	if l.count() < 2 || k.count() != 1 {
		t.Errorf("woken %d times, the kept one %d times", l.count(), k.count())
	}
}

// A server that cannot be reached is a 503 that names its state, and is tried
// again when its time has come; nothing else waits for it.
func TestUnreachable(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "late")
	_, other := listen(t, "unix")
	b := start(t, map[string]string{"late": fmt.Sprintf(`{"type":"unix","socket":%q}`, socket), "other": other}, nil)
	resp := b.do("POST", "/servers/late/mcp", hello, nil)
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || !strings.Contains(string(body), `"state":"backing off"`) || !strings.Contains(string(body), `"id":1`) {
		t.Errorf("%s %v: %s", resp.Status, resp.Header, body)
	}
	if got := b.dial("mcp", "other", nil).call("1", "ping", `{}`); !strings.Contains(got, `"result"`) && !strings.Contains(got, "-32601") {
		t.Errorf("the other server: %s", got)
	}
	inner, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{Listener: inner}
	t.Cleanup(func() { l.Close() })
	go l.accept()
	eventually(t, "it is reached at last", func() bool {
		resp := b.do("POST", "/servers/late/mcp", hello, nil)
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// A process that dies takes its calls with it, with a word; the next use wakes
// another one.
func TestDeathAndRebirth(t *testing.T) {
	b := start(t, map[string]string{"s": stdio("noise")}, nil)
	c := b.dial("mcp", "s", nil)
	if got := c.call("1", "tools/call", `{"name":"die","arguments":{}}`); !strings.Contains(got, "exited with code 9") {
		t.Errorf("the lost call: %s", got)
	}
	if got := c.call("2", "tools/call", `{"name":"echo","arguments":{"x":1}}`); !strings.Contains(got, `{"x":1}`) {
		t.Errorf("the next call: %s", got)
	}
	eventually(t, "the log has stderr and the noise", func() bool {
		log := b.log.String()
		return strings.Contains(log, "[s] a line on stderr") && strings.Contains(log, "Server ready on stdio!") && strings.Contains(log, "skipped")
	})
}

// mcp.json is watched: a broken file changes nothing, a broken entry disables
// itself alone, an edit replaces one server and leaves the others running.
func TestReload(t *testing.T) {
	one, first := listen(t, "unix")
	_, second := listen(t, "unix")
	b := start(t, map[string]string{"one": first, "two": second}, nil)
	c := b.dial("sse", "one", nil)
	d := b.dial("sse", "two", nil)
	c.call("1", "tools/call", `{"name":"echo","arguments":{}}`)
	d.call("1", "tools/call", `{"name":"echo","arguments":{}}`)
	whole, _ := os.ReadFile(b.config)
	if err := os.WriteFile(b.config, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the half file is noticed", func() bool { return strings.Contains(b.log.String(), "last good one stays") })
	if got := c.call("2", "tools/call", `{"name":"echo","arguments":{"x":1}}`); !strings.Contains(got, `{"x":1}`) {
		t.Errorf("under a broken file: %s", got)
	}
	b.write(map[string]string{"one": first, "two": strings.Replace(second, "{", `{"idleMinutes":7,`, 1), "three": `{"type":"docker"}`, "four": `{"command":"${NO_SUCH_VARIABLE}"}`})
	eventually(t, "the new one is in force", func() bool { state, _ := b.status("three"); return state == "disabled" })
	if _, reason := b.status("three"); !strings.Contains(reason, "image") {
		t.Errorf("the reason of the broken entry: %s", reason)
	}
	if _, reason := b.status("four"); !strings.Contains(reason, "NO_SUCH_VARIABLE") {
		t.Errorf("the reason of the entry without its variable: %s", reason)
	}
	resp := b.do("POST", "/servers/three/mcp", hello, nil)
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), "disabled") {
		t.Errorf("the broken entry answers %s: %s", resp.Status, body)
	}
	if got := c.call("3", "tools/call", `{"name":"echo","arguments":{"x":2}}`); !strings.Contains(got, `{"x":2}`) || one.count() != 1 {
		t.Errorf("the unedited server: %s, woken %d times", got, one.count())
	}
	eventually(t, "the edited server's stream ends", func() bool {
		resp := b.do("POST", d.(*session).path, `{"jsonrpc":"2.0","id":4,"method":"ping"}`, nil)
		resp.Body.Close()
		return resp.StatusCode == http.StatusNotFound
	})
}

// A socket of Docker itself in the place of the proxy's is refused with a message.
func TestDaemonInPlaceOfProxy(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "docker")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	daemon := &http.Server{Handler: http.NotFoundHandler()}
	go func() { _ = daemon.Serve(l) }()
	t.Cleanup(func() { daemon.Close() })
	b := start(t, map[string]string{"s": docker}, func(s *service.Settings) { s.ProxySocket = socket })
	resp := b.do("POST", "/servers/s/mcp", hello, nil)
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), "answers as a Docker daemon") {
		t.Errorf("%s: %s", resp.Status, body)
	}
}

// What a hostile server costs is bounded, and it ends in a state with words.
func TestHostileServers(t *testing.T) {
	for mode, want := range map[string]string{
		"flood": "more than 16 MiB",
		"exits": "exited with code 7",
	} {
		t.Run(mode, func(t *testing.T) {
			b := start(t, map[string]string{"s": stdio(mode)}, nil)
			resp := b.do("POST", "/servers/s/mcp", hello, nil)
			body, _ := io.ReadAll(resp.Body)
			late := resp.StatusCode == http.StatusOK && strings.HasPrefix(string(body), ":") // the answer had begun
			if resp.StatusCode != http.StatusServiceUnavailable && !late || !strings.Contains(string(body), want) {
				t.Errorf("%s: %s", resp.Status, body)
			}
		})
	}
	t.Run("endless", func(t *testing.T) {
		l, entry := listen(t, "unix")
		b := start(t, map[string]string{"s": entry}, nil)
		if got := b.dial("mcp", "s", nil).call("1", "tools/call", `{"name":"echo","arguments":{}}`); !strings.Contains(got, `"result"`) {
			t.Fatalf("before: %s", got)
		}
		l.be("endless")
		got := b.dial("mcp", "s", nil).call("1", "tools/call", `{"name":"echo","arguments":{}}`)
		if !strings.Contains(got, "does not end") {
			t.Errorf("got %s", got)
		}
	})
	t.Run("deaf", func(t *testing.T) {
		b := start(t, map[string]string{"s": stdio("deaf")}, nil)
		c := b.dial("sse", "s", nil)
		c.call("1", "tools/call", `{"name":"echo","arguments":{}}`)
		c.close() // its end closes the server's stdin, which this one ignores
		eventually(t, "it is gone", func() bool { state, _ := b.status("s"); return state == "asleep" })
	})
}

// One answer is bounded, and what was cut says so.
func TestLongResultIsCut(t *testing.T) {
	_, entry := listen(t, "unix")
	b := start(t, map[string]string{"s": entry}, nil)
	got := b.dial("mcp", "s", nil).call("1", "tools/call", `{"name":"big","arguments":{}}`)
	if len(got) > 8<<20 || !strings.Contains(got, "cut by the hub") || !strings.Contains(got, "ääää") || strings.Contains(got, "\ufffd") {
		t.Errorf("%d bytes, ending in %s", len(got), got[max(0, len(got)-200):])
	}
}

// Progress does not extend the deadline of a call.
func TestDeadline(t *testing.T) {
	l, entry := listen(t, "unix")
	b := start(t, map[string]string{"s": entry}, func(s *service.Settings) { s.CallTimeout = 500 * time.Millisecond })
	got := b.dial("mcp", "s", nil).call("1", "tools/call", `{"_meta":{"progressToken":1},"name":"wait","arguments":{}}`)
	if !strings.Contains(got, "did not end within 500ms") {
		t.Errorf("got %s", got)
	}
	eventually(t, "the server is told", func() bool { return l.heard("notifications/cancelled") })
}

// A server that says nothing to what it does not know keeps nobody waiting: the
// client hears that this era is unknown, and falls back.
func TestSilentAboutDiscover(t *testing.T) {
	l, entry := listen(t, "unix")
	l.be("quiet")
	b := start(t, map[string]string{"s": entry}, func(s *service.Settings) { s.CallTimeout = 300 * time.Millisecond })
	if got := b.dial("stateless", "s", nil).call("1", "server/discover", `{}`); !strings.Contains(got, `"code":-32601`) {
		t.Errorf("got %s", got)
	}
}

// A remote server that is not there is tried again and again, never parked.
func TestRemoteIsNotThere(t *testing.T) {
	const gone = "http://127.0.0.1:1" // a port of the system's, which no other test is given
	for _, kind := range []string{"http", "sse"} {
		b := start(t, map[string]string{"s": fmt.Sprintf(`{"type":%q,"url":"%s/mcp?key=secret"}`, kind, gone)}, nil)
		resp := b.do("POST", "/servers/s/mcp", hello, nil)
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" ||
			!strings.Contains(string(body), "connection refused") || strings.Contains(string(body)+b.log.String(), "secret") {
			t.Errorf("%s: %s: %s", kind, resp.Status, body)
		}
	}
}

// A request that cannot be served says so on its client's stream, which goes on.
func TestUnreachableOverSSE(t *testing.T) {
	dir := t.TempDir()
	b := start(t, map[string]string{"late": fmt.Sprintf(`{"type":"unix","socket":%q}`, filepath.Join(dir, "late"))}, nil)
	ctx := t.Context()
	c := &session{b: b, ctx: ctx, stop: func() {}, name: "late", header: http.Header{}, answers: map[string]chan string{}, unasked: make(chan string, 10)}
	c.openSSE()
	for id := range 2 {
		if got := c.call(fmt.Sprint(id), "initialize", `{"protocolVersion":"2025-06-18"}`); !strings.Contains(got, `"state":"backing off"`) {
			t.Errorf("got %s", got)
		}
	}
}

// Clients that never end their sessions do not keep others out: the process
// idle longest is evicted, and its client gets another one when it comes back.
func TestRoom(t *testing.T) {
	b := start(t, map[string]string{"s": stdio("")}, nil)
	var all []client
	for range 18 {
		all = append(all, b.dial("mcp", "s", nil))
	}
	for round := range 2 {
		for n, c := range all {
			want := fmt.Sprintf(`{"round":%d,"client":%d}`, round, n)
			if got := c.call(fmt.Sprint(round), "tools/call", `{"name":"echo","arguments":`+want+`}`); !strings.Contains(got, want) {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	}
	if n := strings.Count(b.log.String(), "msg=down"); n > 0 {
		t.Errorf("%d processes ended unasked", n)
	}
}

// The downgrade of the jail is said at start and in the status, since no server
// shows it.
func TestGroupIsLogged(t *testing.T) {
	for mode, want := range map[jail.Mode]bool{jail.Group: true, jail.Full: false} {
		b := start(t, map[string]string{"s": stdio("")}, func(s *service.Settings) { s.Jail = mode })
		resp := b.do("GET", "/status", "", nil)
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		for where, text := range map[string]string{"log": b.log.String(), "status": string(body)} {
			if strings.Contains(text, "MCP_JAIL=group") != want {
				t.Errorf("%s: the %s says %s", mode, where, text)
			}
		}
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/dockerproxy/container"
	"github.com/sallyport-dev/sallyport/dockerproxy/wire"
)

var keyed = map[string]string{"KEY": "hub-value"}

func TestConversation(t *testing.T) {
	b := start(t, goodConfig)
	h := b.run("s", keyed)
	fmt.Fprint(h.conn, "one\ntwo\n")
	h.conn.CloseWrite()
	stdout, stderr, end := h.frames()
	if stdout != "got one\ngot two\n" || stderr != "log onelog two" || end != (wire.End{Reason: wire.EndExited}) {
		t.Errorf("%q %q %+v", stdout, stderr, end)
	}
	b.until("the container is gone", func() bool { return len(b.names()) == 0 })
	var create string
	for _, r := range b.requests() {
		if strings.Contains(r, "/containers/create") {
			create = r
		}
		if !strings.Contains(r, " /v1.41/") {
			t.Errorf("not the pinned version: %s", r)
		}
	}
	for _, want := range []string{"POST /v1.41/containers/create?name=mcp-sandbox-s ", `"KEY=hub-value"`, `"SECRET=s3cret-value"`,
		`"LD_PRELOAD"`, `"traefik.enable":"false"`, `"/cache":"rw,noexec,nosuid,nodev,mode=1777,uid=65532,gid=65532"`, `"Image":"sha256:1111"`} {
		if !strings.Contains(create, want) {
			t.Errorf("%s is not in %s", want, create)
		}
	}
	if text := b.log.String(); strings.Contains(text, "s3cret") || strings.Contains(text, "hub-value") {
		t.Errorf("a value is in the log: %s", text)
	}
}

func TestHandshakeNamesServers(t *testing.T) {
	b := start(t, goodConfig)
	p := b.greet().must(`{"verb":"policy","version":1}`).Policy
	if p == nil || p.Version != 1 || p.Instance != "sallyport" || p.APIVersion != "1.41" || len(p.Servers) != 2 ||
		len(p.Servers["s"]) != 64 || !strings.Contains(p.Broken["bad"], "weaken") {
		t.Errorf("%+v", p)
	}
	h := b.dial()
	if reply := h.ask(`{"verb":"policy","version":2}`); reply.Code != wire.CodeVersion {
		t.Errorf("another version: %+v", reply)
	}
	if _, err := h.in.ReadByte(); err != io.EOF {
		t.Errorf("after another version the connection goes on: %v", err)
	}
}

// TestLongPolicy: a hub reads lines of a limited length.
func TestLongPolicy(t *testing.T) {
	config := strings.Builder{}
	for i := range 300 {
		fmt.Fprintf(&config, `"bad%d": {"type": "docker", "image": "img", "volumes": ["/etc/%s:/x"]}, `, i, strings.Repeat("x", 200))
	}
	b := start(t, `{"mcpServers": {`+config.String()+`"good": {"type": "docker", "image": "img"}}}`)
	h := b.dial()
	fmt.Fprintf(h.conn, "%s\n", `{"verb":"policy","version":1}`)
	line, err := h.in.ReadBytes('\n')
	if err != nil || len(line) > wire.MaxLine || !strings.Contains(string(line), `"ok":true`) {
		t.Errorf("%d bytes, %v", len(line), err)
	}
	h.must(b.ensureLine("good", nil))
	if reply := b.greet().ask(b.ensureLine("good", nil)[:10] + strings.Repeat("x", 60000)); len(reply.Error) > 4100 {
		t.Errorf("an error of %d bytes", len(reply.Error))
	}
}

// TestDenied: nothing of this may reach the daemon.
func TestDenied(t *testing.T) {
	b := start(t, goodConfig)
	other := b.greet()
	other.must(b.ensureLine("plain", nil))
	hash := strings.Repeat("0", 64)
	for _, test := range []struct{ name, lines, code string }{
		{"no handshake", `{"verb":"status"}`, "denied"},
		{"http", "GET /_ping HTTP/1.1", "denied"},
		{"http create", "POST /v1.41/containers/create?name=mcp-sandbox-s HTTP/1.1\r\nHost: d\r\n\r\n{}", "denied"},
		{"unknown verb", hello + `{"verb":"exec","server":"s"}`, "denied"},
		{"verb create", hello + `{"verb":"create","server":"s"}`, "denied"},
		{"stdio server", hello + `{"verb":"ensure","server":"local","hash":"` + hash + `"}`, "denied"},
		{"broken server", hello + `{"verb":"ensure","server":"bad","hash":"` + hash + `"}`, "denied"},
		{"unknown server", hello + `{"verb":"ensure","server":"nobody","hash":"` + hash + `"}`, "denied"},
		{"other spelling", hello + `{"verb":"ensure","server":"S","hash":"` + hash + `"}`, "denied"},
		{"other version of the entry", hello + `{"verb":"ensure","server":"s","hash":"` + hash + `","env":{"KEY":""}}`, "stale"},
		{"env missing", hello + b.ensureLine("s", nil), "denied"},
		{"env extra", hello + b.ensureLine("s", map[string]string{"KEY": "", "LD_PRELOAD": "/x"}), "denied"},
		{"env of a server without", hello + b.ensureLine("plain", keyed), "denied"},
		{"env key with =", hello + b.ensureLine("s", map[string]string{"KEY=x": ""}), "denied"},
		{"env too large", hello + b.ensureLine("s", map[string]string{"KEY": strings.Repeat("x", wire.MaxEnv)}), "denied"},
		{"held by another", hello + b.ensureLine("plain", nil), "busy"},
		{"attach without ensure", hello + `{"verb":"attach","server":"plain"}`, "denied"},
		{"line too long", hello + `{"verb":"` + strings.Repeat("x", wire.MaxLine) + `"}`, "denied"},
		{"forged log line", hello + `{"verb":"stop","server":"x\n{\"msg\":\"all well\"}"}`, "denied"},
		{"control bytes", hello + "{\"verb\":\"stop\x1b[2J\"}", "denied"},
	} {
		t.Run(test.name, func(t *testing.T) {
			defer func(of *testing.T) { b.t = of }(b.t)
			b.t = t
			h := b.dial()
			lines := strings.Split(test.lines, "\x00")
			for _, line := range lines[:len(lines)-1] {
				h.must(line)
			}
			before, dials := len(b.requests()), b.dials.Load()
			if reply := h.ask(lines[len(lines)-1]); reply.OK || reply.Code != test.code || reply.Error == "" {
				t.Errorf("%+v, want %s", reply, test.code)
			}
			if test.code == "denied" {
				if _, err := h.in.ReadByte(); err == nil {
					t.Error("the connection goes on")
				}
			}
			if now := b.requests(); len(now) != before || b.dials.Load() != dials {
				t.Errorf("reached the daemon: %s", now[before:])
			}
		})
	}
	for line := range strings.Lines(b.log.String()) {
		var entry struct{ Msg, Level string }
		if json.Unmarshal([]byte(line), &entry) != nil || entry.Msg == "all well" || strings.ContainsAny(strings.TrimSuffix(line, "\n"), "\x1b\r\n") {
			t.Errorf("a forged line: %q", line)
		}
	}
	if !strings.Contains(b.log.String(), `"msg":"DENY"`) {
		t.Error("no DENY in the log")
	}
}

const hello = `{"verb":"policy","version":1}` + "\x00"

// TestSecondAttach: the stream has one reader and one writer.
func TestSecondAttach(t *testing.T) {
	b := start(t, goodConfig)
	first := b.run("plain", nil)
	if reply := b.greet().ask(b.ensureLine("plain", nil)); reply.Code != wire.CodeBusy {
		t.Errorf("a second ensure: %+v", reply)
	}
	second := b.greet()
	second.must(b.ensureLine("s", keyed))
	if reply := second.ask(`{"verb":"attach","server":"plain"}`); reply.Code != wire.CodeDenied {
		t.Errorf("attach to another's: %+v", reply)
	}
	fmt.Fprint(first.conn, "still mine\n")
	first.conn.CloseWrite()
	if stdout, _, _ := first.frames(); stdout != "got still mine\n" {
		t.Errorf("%q", stdout)
	}
}

// TestConnectionOwnsItsContainer: a hub that dies leaves nothing, before and
// after the start, also if the server ignores the end of its stdin.
func TestConnectionOwnsItsContainer(t *testing.T) {
	b := start(t, goodConfig)
	h := b.greet()
	h.must(b.ensureLine("plain", nil))
	if len(b.names()) != 1 {
		t.Fatalf("containers: %v", b.names())
	}
	h.conn.Close()
	b.until("the new one is gone", func() bool { return len(b.names()) == 0 })
	b.runs(func(c *fakeContainer) {
		for i := 0; ; i++ { // deaf, but it writes
			if _, err := fmt.Fprint(c.conn, "\x01\x00\x00\x00\x00\x00\x00\x01x"); err != nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	h = b.run("plain", nil)
	h.conn.Close()
	b.until("the running one is gone", func() bool { return len(b.names()) == 0 })
	b.run("plain", nil) // and the name is free
}

func TestStopVerb(t *testing.T) {
	b := start(t, goodConfig)
	b.runs(waiting)
	h := b.run("plain", nil)
	b.greet().must(`{"verb":"stop","server":"plain"}`)
	if _, _, end := h.frames(); end.Reason != wire.EndStopped || end.ExitCode != 143 {
		t.Errorf("%+v", end)
	}
	b.greet().must(`{"verb":"stop","server":"plain"}`) // nothing there is fine
	waits := b.greet()                                 // ensured and not attached
	waits.must(b.ensureLine("plain", nil))
	b.greet().must(`{"verb":"stop","server":"plain"}`)
	if _, err := waits.in.ReadByte(); err != io.EOF || len(b.names()) != 0 {
		t.Errorf("a container that nobody attached to: %v, left %v", err, b.names())
	}
	b.put("mcp-sandbox-removed", "running", map[string]any{container.LabelOwner: "sallyport", container.LabelServer: "removed"})
	b.greet().must(`{"verb":"stop","server":"removed"}`)
	if names := b.names(); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
	// A name can mean another container a moment later; an id cannot.
	for _, r := range b.requests() {
		acts := strings.HasPrefix(r, "DELETE ") || strings.HasPrefix(r, "POST /v1.41/containers/") && !strings.Contains(r, "/create?")
		if acts && !idInPath.MatchString(r) {
			t.Errorf("acted on a name: %s", r)
		}
	}
}

var idInPath = regexp.MustCompile(`^[A-Z]+ /v1\.41/containers/[0-9a-f]{64}[/?]`)

// TestForeignContainers: only two right labels make a container ours.
func TestForeignContainers(t *testing.T) {
	b := start(t, goodConfig)
	for _, labels := range []map[string]any{
		nil,
		{container.LabelOwner: "other", container.LabelServer: "plain"},
		{container.LabelOwner: "sallyport"},
		{container.LabelOwner: "sallyport", container.LabelServer: "s"},
		{container.LabelServer: "plain"},
	} {
		c := b.put("mcp-sandbox-plain", "running", labels)
		for _, line := range []string{`{"verb":"stop","server":"plain"}`, b.ensureLine("plain", nil)} {
			reply := b.greet().ask(line)
			if reply.OK || !strings.Contains(reply.Error, "is held by container "+c.id[:12]) {
				t.Errorf("%v, %s: %+v", labels, line, reply)
			}
		}
		if len(b.names()) != 1 {
			t.Fatalf("%v: the container was removed", labels)
		}
		c.end(b.fake, 0)
	}
	for _, r := range b.requests() {
		if strings.HasPrefix(r, "DELETE") || strings.Contains(r, "/stop") || strings.Contains(r, "/create") {
			t.Errorf("sent: %s", r)
		}
	}
}

func TestLeftoversAreReaped(t *testing.T) {
	b := prepare(t, goodConfig)
	mine := map[string]any{container.LabelOwner: "sallyport", container.LabelServer: "plain"}
	b.put("mcp-sandbox-plain", "running", mine)
	b.put("mcp-sandbox-old", "created", map[string]any{container.LabelOwner: "sallyport", container.LabelServer: "old"})
	b.put("mcp-sandbox-plain.two", "running", map[string]any{container.LabelOwner: "two", container.LabelServer: "plain"})
	b.put("db", "running", nil)
	b.start()
	if names := fmt.Sprint(b.names()); names != "[mcp-sandbox-plain.two db]" && names != "[db mcp-sandbox-plain.two]" {
		t.Errorf("left: %s", names)
	}
}

func TestStatus(t *testing.T) {
	b := start(t, goodConfig)
	b.run("s", keyed)
	h := b.greet()
	h.must(b.ensureLine("plain", nil))
	states := h.must(`{"verb":"status"}`).States
	if len(states) != 2 || !states["s"].Attached || states["s"].State != "running" || states["plain"].Attached || states["plain"].State != "created" {
		t.Errorf("%+v", states)
	}
}

// TestProxyEndsItsContainers when it is stopped, and says so.
func TestProxyEndsItsContainers(t *testing.T) {
	b := start(t, goodConfig)
	b.runs(waiting)
	h := b.run("plain", nil)
	idle := b.greet()
	b.stop()
	if _, _, end := h.frames(); end.Reason != wire.EndStopped {
		t.Errorf("%+v", end)
	}
	if _, err := idle.in.ReadByte(); err != io.EOF {
		t.Errorf("an idle connection: %v", err)
	}
	if len(b.names()) != 0 {
		t.Errorf("left: %v", b.names())
	}
	if _, err := os.Stat(b.s.listenSocket); err == nil {
		t.Error("the socket is left")
	}
}

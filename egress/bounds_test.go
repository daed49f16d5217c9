package main_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/egresswire"
	"github.com/sallyport-dev/sallyport/internal/keysocket"
)

// A command that opens connections until it is refused is refused with a message,
// and harms no other command. Slow heads go after their time.
func TestConnectionsAreBounded(t *testing.T) {
	world.dns.Set("ok.example", "93.184.215.10")
	e := start(t, "ok.example")
	greedy, other := e.command(t, "greedy", "*"), e.command(t, "other", "*")
	var held []net.Conn
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	for i := range 140 { // each sends half a head, and then nothing
		c, err := net.Dial("tcp", greedy.address)
		if err != nil {
			t.Fatal(i, err)
		}
		held = append(held, c)
		io.WriteString(c, "CONNECT ok.example:443 HT")
	}
	for range 12 {
		if r := greedy.refusal(); r.Verdict != "too_many" || !strings.Contains(r.Say, "128") {
			t.Errorf("%+v", r)
		}
	}
	if got, err := other.get("https://ok.example/"); err != nil {
		t.Errorf("another command: %q, %v", got, err)
	}
	begin := time.Now()
	for range 128 {
		if r := greedy.refusal(); r.Verdict != "timed_out" {
			t.Errorf("%+v", r)
		}
	}
	if took := time.Since(begin); took > time.Minute { // their time is 10 s; other bounds of a connection, minutes
		t.Errorf("slow heads were served for %v", took)
	}
	for { // each place is free a moment after its refusal was told
		if _, err := greedy.get("https://ok.example/"); err == nil {
			break
		} else if !strings.Contains(err.Error(), "connections open") {
			t.Fatal("afterwards:", err)
		}
	}
}

// Refused connections are recorded one by one up to the command's limit, then
// counted, so that no command fills the disk.
func TestRefusalsAreBounded(t *testing.T) {
	e := start(t, "ok.example")
	c := e.command(t, "c1", "*")
	work := make(chan int)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range work {
				c.raw("CONNECT evil.example:443 HTTP/1.1\r\n\r\n")
			}
		})
	}
	const total, more = 4096, 50
	for i := range total + more {
		work <- i
	}
	close(work)
	all.Wait()
	c.way.Close()
	refused, counted := 0, 0
	awaitThat(t, "the count", func() bool {
		refused = 0
		for _, r := range e.records() {
			refused++
			if more, ok := detail(r, "more"); ok {
				counted, _ = strconv.Atoi(more)
			}
		}
		return counted > 0
	})
	if refused != total+2 || counted != more-1 {
		t.Errorf("%d records, the last counts %d", refused, counted)
	}
}

// When egress is killed, commands are told; when it is back, they go on.
func TestKillAndRestart(t *testing.T) {
	world.dns.Set("ok.example", "93.184.215.10")
	e := start(t, "ok.example")
	c := e.command(t, "c1", "ok.example")
	if got, err := c.get("https://ok.example/"); err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	open, _ := c.connect("ok.example:443")
	defer open.Close()
	e.cmd.Process.Signal(syscall.SIGKILL)
	e.cmd.Wait()
	if _, err := io.ReadAll(open); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("an open connection: %v", err)
	}
	for { // until the way has seen its lease end
		if got := c.raw("CONNECT ok.example:443 HTTP/1.1\r\n\r\n"); strings.Contains(got, "502 egress: ") {
			break
		}
	}
	if r := c.refusal(); r.Verdict != egresswire.Down {
		t.Errorf("%+v", r)
	}
	e.run()
	awaitThat(t, "it is served after the restart", func() bool { // once the way knows that its lease has ended
		_, err := c.get("https://ok.example/")
		return err == nil
	})
}

// The end of a command ends its connections.
func TestConnectionsEndWithTheirCommand(t *testing.T) {
	world.dns.Set("ok.example", "93.184.215.10")
	e := start(t, "ok.example")
	c := e.command(t, "c1", "ok.example")
	open, status := c.connect("ok.example:443")
	defer open.Close()
	if !strings.Contains(status, "200") {
		t.Fatal(status)
	}
	c.way.Close()
	if _, err := io.ReadAll(open); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("not closed: %v", err)
	}
}

func detail(record map[string]any, name string) (string, bool) {
	details, _ := record["details"].(map[string]any)
	text, ok := details[name].(string)
	return text, ok
}

// What the hosts saw and what the audit says are the same connections.
func TestAuditIsComplete(t *testing.T) {
	world.dns.Set("ok.example", "93.184.215.10")
	e := start(t, "ok.example,http://ok.example,host.example")
	forget()
	world.dns.Set("host.example", "10.0.0.5")
	const each = 20
	var all sync.WaitGroup
	for n := range each {
		all.Go(func() {
			c := e.command(t, fmt.Sprint("c", n), "ok.example", "http://ok.example", "host.example")
			c.get("https://ok.example/")
			c.get("http://ok.example/")
			c.get("https://host.example/")
			c.get("https://evil.example/")
			c.raw("nonsense\r\n\r\n")
		})
	}
	all.Wait()
	ends := map[string]int{}
	begun := map[any]bool{}
	awaitThat(t, "all ends are on the record", func() bool {
		clear(ends)
		all := 0
		for _, r := range e.records() {
			switch r["kind"] {
			case "begin":
				begun[r["seq"]] = true
			case "end":
				delete(begun, r["begin"])
				fallthrough
			case "refused":
				target, _ := detail(r, "target")
				address, _ := detail(r, "address")
				ends[fmt.Sprint(r["verdict"], " ", target, " ", address, " ", r["principal"], " ", r["session"])]++
				all++
			}
		}
		return all >= 5*each
	})
	for _, want := range []string{"ok ok.example:443 93.184.215.10:443 token:poke s1", "ok ok.example:80 93.184.215.10:80 token:poke s1",
		"not_public host.example:443  token:poke s1", "not_granted evil.example:443  token:poke s1", "bad_request   token:poke s1"} {
		if ends[want] != each {
			t.Errorf("%q: %d records, want %d; all: %v", want, ends[want], each, ends)
		}
	}
	if len(begun) != 0 {
		t.Errorf("%d connections have no end", len(begun))
	}
	for _, address := range []string{"93.184.215.10:443", "93.184.215.10:80"} {
		if n := len(world.heard(address)); n != each {
			t.Errorf("%s saw %d connections", address, n)
		}
	}
	quiet(t)
}

// Nothing is dialled that cannot be recorded.
func TestNoAuditNoConnection(t *testing.T) {
	world.dns.Set("ok.example", "93.184.215.10")
	e := start(t, "ok.example")
	forget()
	e.cmd.Process.Kill()
	e.cmd.Wait()
	small := filepath.Join(t.TempDir(), "full")
	if err := os.Mkdir(small, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=64k,mode=0700"); err != nil {
		t.Fatal(err)
	}
	defer syscall.Unmount(small, syscall.MNT_DETACH)
	e.env = append(e.env, "EGRESS_AUDIT_FILE="+small+"/audit.jsonl")
	e.run()
	os.WriteFile(small+"/filler", make([]byte, 1<<20), 0o600)
	c := e.command(t, "c1", "ok.example")
	conn, status := c.connect("ok.example:443")
	conn.Close()
	if !strings.Contains(status, "503 egress: egress cannot write its audit") {
		t.Errorf("answer %q", status)
	}
	if got := world.heard("93.184.215.10:443"); len(got) != 0 {
		t.Errorf("the host was reached: %q", got)
	}
}

// Without the key nobody reaches anything, also not with a guessed ticket.
func TestKeyIsNeeded(t *testing.T) {
	world.dns.Set("ok.example", "93.184.215.10")
	e := start(t, "ok.example")
	forget()
	world.dns.Queries()
	wrong, _ := keysocket.ParseKey([]byte(strings.Replace(key, "0", "1", 1)))
	if _, err := keysocket.Dial(t.Context(), e.client.Socket, wrong); !errors.Is(err, keysocket.ErrRefused) {
		t.Errorf("a wrong key: %v", err)
	}
	for _, first := range []string{"", `{"command":{"principal":"x","id":"y","rules":["*"]}}`, "CONNECT ok.example:443 HTTP/1.1\r\n\r\n"} {
		conn, err := net.Dial("unix", e.client.Socket)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "%s\n%s", first, strings.Repeat("x", 100))
		if got, _ := io.ReadAll(conn); strings.Contains(string(got), "ok") || strings.Contains(string(got), "ticket") {
			t.Errorf("%q: %q", first, got)
		}
		conn.Close()
	}
	for _, line := range []string{`{"ticket":"AAAAAAAAAAAAAAAAAAAAAAAAAA"}`, `{"command":{"principal":"x","id":"y","rules":["private:home.example:443"]}}`,
		`{"command":{"principal":"","id":"","rules":["*"]}}`, `{"command":{"principal":"x","id":"y","rules":["*"]},"ceiling":["*"]}`, `{}`, `x`} {
		conn, err := keysocket.Dial(t.Context(), e.client.Socket, e.client.Key)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "%s\nCONNECT ok.example:443 HTTP/1.1\r\n\r\n", line)
		if got, _ := io.ReadAll(conn); strings.Contains(string(got), "ticket\"") || strings.Contains(string(got), "200") {
			t.Errorf("%q: %q", line, got)
		}
		conn.Close()
	}
	if q := world.dns.Queries(); len(q) != 0 {
		t.Errorf("queries: %q", q)
	}
}

// What doctor asks: which rules the ceiling narrows, which names have no
// usable address.
func TestCheck(t *testing.T) {
	world.dns.Set("ok.example", "93.184.215.10")
	world.dns.Set("host.example", "10.0.0.5")
	e := start(t, "ok.example,*.wild.example,a.part.example,host.example,missing.example")
	rules := []string{"*", "ok.example", "other.example", "*.wild.example", "*.part.example", "*.other.example", "host.example", "missing.example", "x_y"}
	reply, err := e.client.Ask(t.Context(), egresswire.Check{Rules: rules, Resolve: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"", "", "EGRESS_ALLOW", "", "only part", "allows nothing", "not public", "DNS knows no address", "ASCII"} {
		if got := reply.Checked[i]; (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", rules[i], got, want)
		}
	}
	if strings.Join(reply.Ceiling, " ") != "ok.example *.wild.example a.part.example host.example missing.example" {
		t.Errorf("ceiling %v", reply.Ceiling)
	}
}

// All mistakes come in one message, with exit code 2, and none shows the key.
func TestSettings(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(dir+"/key", []byte(key[1:]+"G"), 0o600)
	cmd := exec.Command(binary)
	cmd.Env = []string{"EGRESS_SOCKET=relative", "EGRESS_KEY_FILE=" + dir + "/key", "EGRESS_ALLOW=ok.example,*,10.0.0.1,*.com", "EGRESS_AUDIT_FILE=x"}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Errorf("%v", err)
	}
	for _, want := range []string{"EGRESS_SOCKET", "EGRESS_KEY_FILE", `"*"`, "10.0.0.1", "*.com", "EGRESS_AUDIT_FILE", "-h"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%s is not named in %s", want, out)
		}
	}
	if strings.Contains(string(out), key[1:20]) {
		t.Errorf("the key is shown: %s", out)
	}
}

func TestHealth(t *testing.T) {
	e := start(t, "ok.example")
	health := func() ([]byte, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, binary, "health")
		cmd.Env = e.env
		return cmd.CombinedOutput()
	}
	if out, err := health(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	e.cmd.Process.Kill()
	e.cmd.Wait()
	if out, err := health(); err == nil {
		t.Errorf("healthy without a process: %s", out)
	}
}

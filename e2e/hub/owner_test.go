package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/audit/reader"
)

// save calls the tool of the turncoat behind the hub.
func save(ctx context.Context, c *mcp.ClientSession) (*mcp.CallToolResult, error) {
	return c.CallTool(ctx, &mcp.CallToolParams{Name: "save"})
}

// kill -9 of the hub while calls run: the chain verifies each time, and no call
// came to its server without its begin.
func TestKilledHubLosesNoRecord(t *testing.T) {
	rounds := 20
	if os.Getenv("SALLYPORT_SOAK") != "" {
		rounds = 200
	}
	s := prepare(t)
	file := filepath.Join(s.own(filepath.Join(s.dir, "audit")), "audit.jsonl")
	s.env = append(s.env, "MCP_AUDIT_FILE="+file)
	port, description, calls := turncoat(t)
	description.Store("Saves a note.")
	s.configure(map[string]any{"notes": entry{"type": "tcp", "host": "127.0.0.1", "port": port}})
	var acknowledged atomic.Int64
	for round := range rounds {
		s.start()
		before := calls.Load()
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				c, err := rig.TryConnect(ctx, s.url+"/servers/notes", s.token, rig.Streamable)
				for err == nil {
					if _, err = save(ctx, c); err == nil {
						acknowledged.Add(1)
					}
				}
			})
		}
		rig.Until(t, "a call arrived", func() bool { return calls.Load() > before }, s.Process)
		time.Sleep(time.Duration(rand.IntN(100_000)) * time.Microsecond) // the random point
		s.Kill()
		<-s.Done
		cancel()
		all.Wait()
		begun, ended := s.verified(file)
		if n, answered := int(calls.Load()), int(acknowledged.Load()); n > begun || answered > ended {
			t.Fatalf("round %d: %d calls arrived, %d began on the record; %d were answered, %d ended", round, n, begun, answered, ended)
		}
	}
	begun, ended := s.verified(file)
	t.Logf("%d kills, %d calls, %d begins, %d answers, %d ends", rounds, calls.Load(), begun, acknowledged.Load(), ended)
}

// The hub ends in order with its audit open, and what it wrote verifies.
func TestHubEndsInOrder(t *testing.T) {
	s := prepare(t)
	file := filepath.Join(s.own(filepath.Join(s.dir, "audit")), "audit.jsonl")
	s.env = append(s.env, "MCP_AUDIT_FILE="+file)
	port, description, _ := turncoat(t)
	description.Store("Saves a note.")
	s.configure(map[string]any{"notes": entry{"type": "tcp", "host": "127.0.0.1", "port": port}})
	s.start()
	if _, err := save(t.Context(), rig.Connect(t, s.url+"/servers/notes", s.token, rig.Streamable)); err != nil {
		t.Fatal(err)
	}
	_ = s.Cmd.Process.Signal(syscall.SIGTERM)
	<-s.Done
	if code, log := s.Cmd.ProcessState.ExitCode(), s.Log.String(); code != 0 || strings.Contains(log, "panic") {
		t.Errorf("it ended with %d:\n%s", code, log)
	}
	if n, _ := s.verified(file); n != 1 {
		t.Errorf("%d calls are on the record", n)
	}
}

// verified has `sallyport` check the chain, and counts the calls of
// "notes" that began and ended.
func (s *stand) verified(file string) (begun, ended int) {
	s.t.Helper()
	if out, err := exec.Command(rig.Binary(s.t, "sallyport"), "audit", "verify", file).CombinedOutput(); err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
	if _, _, err := reader.Read(file); err != nil {
		s.t.Fatalf("the second reader: %v", err)
	}
	err := audit.Lines(file, func(l audit.Line) bool {
		switch r, ok := l.Record(); {
		case ok && r.Kind == audit.KindBegin && r.Tool == "save":
			begun++
		case ok && r.Kind == audit.KindEnd:
			ended++
		}
		return true
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return begun, ended
}

// The disk of the hub's audit is full: calls are refused with an error message and do not
// come to their server; with room again they do. Nothing is lost.
func TestHubRefusesCallsOnAFullDisk(t *testing.T) {
	s := prepare(t)
	rig.NeedCommand(t, "unshare")
	folder := s.own(filepath.Join(s.dir, "audit"))
	s.env = append(s.env, "MCP_AUDIT_FILE="+folder+"/chain/audit.jsonl")
	s.wrap = []string{"unshare", "--mount", "sh", "-c",
		`mount -t tmpfs -o size=2m,mode=0755 tmpfs "$1" && mkdir -m 0700 "$1/chain" && chown ` +
			fmt.Sprintf("%d:%[1]d", uid) + ` "$1/chain" && shift && exec "$@"`, "sh", folder}
	port, description, calls := turncoat(t)
	description.Store("Saves a note.")
	s.configure(map[string]any{"notes": entry{"type": "tcp", "host": "127.0.0.1", "port": port}})
	s.start()
	inside := fmt.Sprintf("/proc/%d/root%s", s.Servers()[len(s.Servers())-1], folder)
	c := rig.Connect(t, s.url+"/servers/notes", s.token, rig.SSE)
	if r, err := save(t.Context(), c); err != nil || r.IsError {
		t.Fatalf("twin, with room: %v %v", r, err)
	}
	rest, err := os.Create(inside + "/rest")
	if err != nil {
		t.Fatal(err)
	}
	defer rest.Close()
	if _, err := io.Copy(rest, zeros{}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	words := ""
	for n := 0; words == "" && n < 20_000; n++ { // what was reserved before may still be used
		r, err := save(t.Context(), c)
		switch {
		case err != nil:
			words = err.Error()
		case r.IsError:
			words = rig.Text(r)
		}
	}
	if !strings.Contains(words, audit.ErrUnwritable.Error()) {
		t.Errorf("a client is told %q", words)
	}
	arrived := calls.Load()
	_, _ = save(t.Context(), c)
	if calls.Load() != arrived {
		t.Error("a call without a record came to its server")
	}
	if err := os.Remove(rest.Name()); err != nil {
		t.Fatal(err)
	}
	rest.Close()
	rig.Until(t, "a call with room again", func() bool {
		r, err := save(t.Context(), c)
		return err == nil &&
			!r.IsError
	}, s.Process)
	if begun, _ := s.verified(inside + "/chain/audit.jsonl"); int64(begun) != calls.Load() {
		t.Errorf("%d calls arrived, %d are on the record", calls.Load(), begun)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// A stdio server cannot change the modes of what belongs to the hub or to another
// server, though it is the same account's: that would show secrets to others of the
// machine, or stop every server. What is its own it may change.
func TestStdioServersChangeNoModes(t *testing.T) {
	s := prepare(t)
	other := s.private("other", "touch")
	s.configure(map[string]any{"box": entry{"command": "/bin/sh", "args": []string{"-c", `
		for dir in ` + s.state() + ` ` + s.state() + `/pins ` + other + ` ` + s.dir + `; do
			chmod 0777 $dir 2>/dev/null; touch -d 2001-01-01 $dir 2>/dev/null; done
		echo mine >/tmp/mine; mkdir own; chmod 0750 own
		echo "modes of own: $(stat -c %a own), in /tmp: $(cat /tmp/mine)" >&2; exit 1`}}})
	modes := func() (list []os.FileMode) {
		for _, dir := range []string{s.state(), s.state() + "/pins", other, s.dir} {
			info, err := os.Stat(dir)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, info.Mode())
		}
		return list
	}
	s.start()
	before := modes()
	if strings.Contains(s.Log.String(), "no mounts of their own") {
		t.Skip("this machine gives no user namespaces: docs/hub.md says what a stdio server can change")
	}
	session := rig.Connect(t, s.url+"/hub", s.token, rig.Streamable)
	go session.CallTool(t.Context(), &mcp.CallToolParams{Name: "wake_server", Arguments: rig.Args{"server": "box"}}) // it fails
	rig.Until(t, "it has tried", func() bool { return strings.Contains(s.Log.String(), "modes of own: 750, in /tmp: mine") }, s.Process)
	if now := modes(); !slices.Equal(now, before) {
		t.Errorf("modes were changed: %v, before %v", now, before)
	}
	if _, err := os.Stat("/tmp/mine"); err == nil {
		t.Error("it wrote into the machine's /tmp")
	}
}

// The same without mounts of their own, on which the test above rests.
func TestStdioServersChangeModesUnguarded(t *testing.T) {
	s := prepare(t, "MCP_IN_CONTAINER=true")
	s.configure(map[string]any{"box": entry{"command": "/bin/sh", "args": []string{"-c", "chmod 0751 " + s.state() + "; echo tried >&2; exit 1"}}})
	s.start()
	session := rig.Connect(t, s.url+"/hub", s.token, rig.Streamable)
	go session.CallTool(t.Context(), &mcp.CallToolParams{Name: "wake_server", Arguments: rig.Args{"server": "box"}}) // it fails
	rig.Until(t, "it has tried", func() bool { return strings.Contains(s.Log.String(), "[box] tried") }, s.Process)
	if info, err := os.Stat(s.state()); err != nil || info.Mode().Perm() != 0o751 {
		t.Errorf("%v %v: the guarded test shows nothing", info, err)
	}
}

package hub

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// The Docker daemon goes and comes back under a server in use; sockets vanish;
// mcp.json is found half written. Each time clients get an error that says what
// is wrong, and everything works again without help.
func TestDaemonGoesUnderTheHub(t *testing.T) {
	rig.NeedDocker(t)
	e := rig.StartEngine(t)
	b := startBoxes(t, e.Socket())
	session := b.dial("one", rig.SSE) // over which clients show the error's own words
	rig.Until(t, "a first answer", func() bool { got, err := b.key(session); return err == nil && got == "one" })
	before := []int{descriptors(b.Process), descriptors(b.proxy)}
	back := func(what string) {
		t.Helper()
		rig.Until(t, what+": the same session works again", func() bool { got, err := b.key(session); return err == nil && got == "one" }, b.Process, b.proxy)
		if ids := b.containers(""); len(ids) != 1 {
			t.Errorf("%s: the containers are %q", what, ids)
		}
	}
	down := func(what, why string) {
		t.Helper()
		rig.Until(t, what+": an error that says "+why, func() bool {
			_, err := b.key(session)
			if err == nil {
				t.Fatalf("%s: a call succeeded", what)
			}
			return strings.Contains(err.Error(), why)
		}, b.Process, b.proxy)
	}
	for _, ending := range []struct {
		name string
		end  func()
	}{{"killed", e.Kill}, {"stopped in good order", e.Stop}} {
		lost := b.waiting(session)
		ending.end()
		if err := <-lost; err == nil || !strings.Contains(err.Error(), "the call was lost: the container e") {
			t.Errorf("%s: the call that ran ended with %v", ending.name, err)
		}
		down(ending.name, "the Docker daemon does not answer")
		e.Start()
		if err := os.Chmod(e.Socket(), 0o666); err != nil {
			t.Fatal(err)
		}
		back(ending.name)
	}

	for _, gone := range []struct{ what, socket, why string }{
		{"the daemon's socket is away", e.Socket(), "the Docker daemon does not answer"},
		{"the proxy's socket is away", b.socket, "the policy proxy cannot be reached"},
	} {
		b.sleep("one")
		move(t, gone.socket, gone.socket+".away")
		down(gone.what, gone.why)
		move(t, gone.socket+".away", gone.socket)
		back(gone.what)
	}

	good, err := os.ReadFile(filepath.Join(b.dir, "mcp.json"))
	if err == nil {
		err = os.WriteFile(filepath.Join(b.dir, "mcp.json"), good[:len(good)/2], 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	rig.Until(t, "the hub sees the half", func() bool { return strings.Contains(b.Log.String(), "the last good one stays in force") }, b.Process)
	rig.Until(t, "the proxy sees the half", func() bool { return strings.Contains(b.proxy.Log.String(), "the last good one stays") }, b.proxy)
	back("a half-written mcp.json")
	if err := os.WriteFile(filepath.Join(b.dir, "mcp.json"), good, 0o644); err != nil {
		t.Fatal(err)
	}
	back("the whole of it")
	session.Close()
	b.settled(before)
}

// waiting starts a call that has no end. The channel says what became of it.
func (b *boxes) waiting(session *mcp.ClientSession) <-chan error {
	b.t.Helper()
	before := strings.Count(b.Log.String(), "[one] waiting")
	lost := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(b.t.Context(), rig.Deadline)
		defer cancel()
		_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "wait"})
		lost <- err
	}()
	rig.Until(b.t, "the call runs", func() bool { return strings.Count(b.Log.String(), "[one] waiting") > before }, b.Process, b.proxy)
	return lost
}

func (b *boxes) sleep(server string) {
	b.t.Helper()
	session := rig.Connect(b.t, b.url+"/hub", b.token, rig.Streamable)
	if result := rig.TryCall(b.t, session, "sleep_server", rig.Args{"server": server}); result.IsError {
		b.t.Fatal(rig.Text(result))
	}
	rig.Until(b.t, "it sleeps", func() bool { return len(b.containers(server)) == 0 })
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// A server that hangs, as one whose container is paused does, is healed: its caller
// gets an error that says so, nobody else notices, and a fresh container takes its place.
func TestPausedServerIsReplaced(t *testing.T) {
	b := startBoxes(t, "")
	one := maps.Clone(b.entries["one"].(entry))
	one["timeout"] = 2000 // ms
	b.configure(map[string]any{"one": one})
	edited := func() bool { return strings.Contains(b.Log.String(), `"removed or edited","server":"one"`) }
	rig.Until(t, "the edit is in force", edited, b.Process)
	b.says("one", "one")
	b.says("two", "two")
	session, other, before := b.dial("one", rig.Streamable), b.dial("two", rig.Streamable), b.only("one")
	if _, err := b.key(session); err != nil {
		t.Fatal(err)
	}
	if out, err := b.engine("pause", before).CombinedOutput(); err != nil {
		t.Fatalf("docker pause: %v\n%s", err, out)
	}
	if got, err := b.key(session); err == nil || !strings.Contains(err.Error(), "did not end within 2s") {
		t.Errorf("a call of the paused server: %q %v", got, err)
	}
	rig.Until(t, "a fresh container", func() bool {
		if got, err := b.key(other); err != nil || got != "two" {
			t.Errorf("the other server meanwhile: %q %v", got, err)
		}
		ids := b.containers("one")
		return !slices.Contains(ids, before)
	}, b.Process, b.proxy)
	b.says("one", "one")
	if log := b.Log.String(); !strings.Contains(log, "no ping is answered") {
		t.Errorf("the log does not say why:\n%s", log)
	}
}

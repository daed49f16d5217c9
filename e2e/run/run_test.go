// Package run_test runs `make run` as a new user does: in a fresh checkout, as
// root and as an ordinary user, with no file edited.
package run_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

const origin = "http://127.0.0.1:18080"

func TestMakeRun(t *testing.T) {
	for _, user := range []struct {
		name       string
		uid, owner uint32 // who runs make, who owns what the tools write
	}{
		{"root", 0, 64321},
		{"uid 1000", 1000, 1000},
	} {
		t.Run(user.name, func(t *testing.T) {
			rig.Lock(t, "stack") // the port
			c := rig.NewCheckout(t, user.uid)
			if user.uid == uint32(os.Geteuid()) {
				c.Env = append(c.Env, "GOCACHE="+rig.GoCache(t)) // others build from nothing
			}
			c.Make("bin/sallyport-run") // as long as it takes
			p := rig.Start(t, c.Command("make", "run"))
			rig.Until(t, "make run to serve", func() bool { return rig.Status(origin+"/healthz") == 200 }, p)

			// It may serve before what it said has come through the pipe.
			rig.Until(t, "make run to say its URL", func() bool { return strings.Contains(p.Log.String(), origin+"/mcp-sandbox/sse") }, p)
			token := c.Read(".sallyport/edge/client-token")
			for path, want := range map[string]int{"/mcp-sandbox/sse": 401, "/mcp-sandbox/mcp": 401, "/": 404} {
				if got := rig.Status(origin + path); got != want {
					t.Errorf("GET %s without a token: %d, want %d", path, got, want)
				}
			}
			for _, how := range []rig.Transport{rig.SSE, rig.Streamable} {
				rig.UseThreeTools(t, rig.Connect(t, origin+"/mcp-sandbox", token, how))
			}
			owner(t, filepath.Join(c.Dir, "workspace", "three-tools.txt"), user.owner, 0)
			owner(t, filepath.Join(c.Dir, ".sallyport", "edge", "client-token"), user.owner, 0o600)
			owner(t, filepath.Join(c.Dir, ".sallyport", "edge"), user.owner, 0o700)

			// Ctrl-C leaves no process.
			if err := syscall.Kill(-p.Cmd.Process.Pid, syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			rig.Until(t, "make run to end", func() bool {
				select {
				case <-p.Done:
					return true
				default:
					return false
				}
			})
			if said := p.Log.String(); strings.Contains(said, token) {
				t.Errorf("make run prints the token:\n%s", said)
			}
			if left := running(t, filepath.Join(c.Dir, "bin", "sallyport-run")); len(left) > 0 {
				t.Errorf("still running: %q", left)
			}
		})
	}
}

// owner wants a file of the user, and the mode where it is not 0.
func owner(t *testing.T, name string, uid uint32, mode os.FileMode) {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Error(err)
		return
	}
	if st := info.Sys().(*syscall.Stat_t); st.Uid != uid || mode != 0 && info.Mode().Perm() != mode {
		t.Errorf("%s: %v of %d, want user %d", name, info.Mode(), st.Uid, uid)
	}
}

// running lists the processes whose program is the given file.
func running(t *testing.T, program string) (found []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if exe, err := os.Readlink(link); err == nil && strings.TrimSuffix(exe, " (deleted)") == program {
			found = append(found, filepath.Base(filepath.Dir(link)))
		}
	}
	return found
}

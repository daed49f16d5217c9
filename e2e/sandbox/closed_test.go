package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// From a clone that only root can enter, built under a strict umask, `make run`
// gives root up all the same, and what walks to the workspace by name works.
func TestMakeRunFromAClosedClone(t *testing.T) {
	rig.NeedRoot(t)
	rig.Lock(t, "stack") // the port
	c := rig.NewCheckout(t, 0)
	if err := os.Chmod(filepath.Dir(c.Dir), 0o700); err != nil {
		t.Fatal(err)
	}
	c.Env = append(c.Env, "GOCACHE="+rig.GoCache(t))
	if out, err := c.Command("sh", "-c", "umask 077; make bin/sandboxd").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p := rig.Start(t, c.Command("sh", "-c", "umask 077; exec make run"))
	const origin = "http://127.0.0.1:18080"
	rig.Until(t, "make run to serve", func() bool { return rig.Status(origin+"/healthz") == 200 }, p)
	session := rig.Connect(t, origin+"/mcp-sandbox", c.Read(".sallyport/edge/client-token"), rig.Streamable)
	for command, want := range map[string]string{
		"id -u":                         "64321",
		"mkdir -p sub && cd sub && pwd": "/run/sallyport/workspace/sub",
		"git init -q repo && git -C repo status --short && echo done":                                            "done",
		"mkdir -p m && cd m && echo 'module m' > go.mod && echo 'package m' > m.go && go list . && go env GOMOD": "/run/sallyport/workspace/m/go.mod",
		"echo 'console.log(require(\"path\").resolve(\"a.js\"))' > a.js && node a.js":                            "/run/sallyport/workspace/a.js",
	} {
		if said := rig.Text(rig.TryCall(t, session, "run_command", rig.Args{"command": command, "timeout_seconds": 100})); !strings.Contains(said, want) {
			t.Errorf("%s: %s, want %q", command, said, want)
		}
	}
	if !strings.Contains(p.Log.String(), "/run/sallyport/workspace") {
		t.Errorf("it is not said:\n%s", p.Log.String())
	}
}

package sandbox

import (
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/e2e/tools"
)

// A test suite that listens on localhost: what MCP_COMMAND_NETWORK=container is
// for.
const listening = `package m

import (
	"net"
	"testing"
)

func TestListen(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}
`

// The image's own Go builds and runs such a suite in the locked container. The
// same test, built already, fails where commands have no network, and neither
// way lets a command see the server's token.
func TestGoTestWithALocalListener(t *testing.T) {
	d := rig.NeedImages(t)
	rig.Lock(t, "cpu")
	volume := d.Run("volume", "create", d.Name)
	t.Cleanup(func() { d.Try("volume", "rm", volume) })
	d.Run("run", "--rm", "-v", volume+":/workspace", tools.GoImage, "chown", uid+":"+uid, "/workspace")
	for _, mode := range []string{"container", "none"} {
		args := serve(t, "--memory", "1g", "-p", "127.0.0.1::8000", "-e", "MCP_COMMAND_NETWORK="+mode)
		for i, a := range args {
			switch {
			case strings.HasPrefix(a, "/workspace:"):
				args[i-1], args[i] = "-v", volume+":/workspace"
			case a == tools.DebianImage:
				args[i] = tools.GoImage
			}
		}
		id := d.Container(args...)
		addr := strings.TrimSpace(d.Run("port", id, "8000"))
		rig.Until(t, "the sandbox's health", func() bool { return rig.Status("http://"+addr+"/healthz") == 200 })
		session := rig.Connect(t, "http://"+addr+"/mcp-sandbox", strings.Repeat("t", 43), rig.Streamable)
		if mode == "container" {
			rig.Call(t, session, "write_file", rig.Args{"path": "go.mod", "content": "module m\n\ngo 1.24\n"})
			rig.Call(t, session, "write_file", rig.Args{"path": "m_test.go", "content": listening})
			out := rig.Call(t, session, "run_command", rig.Args{"command": "go test -vet=off -o built.test . && env | grep -c " + strings.Repeat("t", 43) + " || true", "timeout_seconds": 120})
			if said, _ := out["stdout"].(string); !strings.Contains(said, "ok  \tm\t") || !strings.HasSuffix(strings.TrimSpace(said), "0") {
				t.Fatalf("go test: %v", out)
			}
		}
		res := rig.TryCall(t, session, "run_command", rig.Args{"command": "./built.test", "timeout_seconds": 60})
		if res.IsError != (mode == "none") {
			t.Errorf("network %s: %s", mode, rig.Text(res))
		}
	}
}

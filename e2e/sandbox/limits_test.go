package sandbox

import (
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// A machine may give less than a command is limited to: what is lower stays, and the
// server starts.
func TestLowerLimitsStay(t *testing.T) {
	rig.NeedCommand(t, "prlimit")
	for limits, want := range map[string]string{"--nofile=300:300": "300\n", "--nofile=4096:4096": "1024\n"} {
		s := rig.StartSandboxd(t, rig.SandboxdOptions{Wrap: []string{"prlimit", limits}})
		session := rig.Connect(t, s.URL+"/mcp-sandbox", s.Token, rig.Streamable)
		if got := call(t, session, work{script: "ulimit -Hn"}); !strings.Contains(got.text, want) {
			t.Errorf("%s: %s", limits, got.text)
		}
	}
}

package sandbox

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// The owner's attack finds nothing in a full jail, and finds what is open
// where the jail is only a process group.
func TestAttackCommand(t *testing.T) {
	rig.NeedRoot(t) // so that the sandbox has an account of its own
	raw, err := os.ReadFile("../../docs/attack.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	for _, c := range []struct {
		mode    string
		code    int
		through []string
	}{
		{"full", 0, nil},
		{"group", 1, []string{"signal the server", "the server's limits", "a TCP socket", "write to /var/tmp", "outlive it in a session of its own", "read a canary file"}},
	} {
		t.Run(c.mode, func(t *testing.T) {
			s := rig.StartSandboxd(t, rig.SandboxdOptions{Env: []string{"MCP_JAIL=" + c.mode}})
			cmd := exec.Command(rig.Binary(t, "sallyport"), "attack", "-token-file", s.TokenFile, s.URL+"/mcp-sandbox")
			raw, _ := cmd.Output()
			out := string(raw)
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if n := strings.Count(out, "\nTHROUGH "); c.code == 0 && n > 0 || strings.Contains(out, "\nskipped ") || strings.Contains(out, s.Token) {
				t.Errorf("%d got through", n)
			}
			if got := regexp.MustCompile(`(?m)^\d+ held, .*$`).FindString(out); c.code == 0 && !strings.Contains(page, "\n"+got+"\n") {
				t.Errorf("docs/attack.md does not say %q", got)
			}
			for _, name := range c.through {
				if !strings.Contains(out, "\nTHROUGH  "+name) {
					t.Errorf("%q was held", name)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

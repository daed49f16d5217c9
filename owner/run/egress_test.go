package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// -egress off is none, as in make up EGRESS=off; the twin names hosts.
func TestEgressOff(t *testing.T) {
	s := start(t, folder(t, os.Geteuid()), os.Geteuid(), "-egress", "off")
	got := call(t, s.connect(t, "streamable"), "run_command", map[string]any{"command": "env"})
	if out := fmt.Sprint(got["stdout"]); strings.Contains(out, "https_proxy=") {
		t.Errorf("commands have a proxy:\n%s", out)
	}
	s.interrupt(t)
}

// With -egress commands reach listed hosts through the egress of this process,
// and a refusal says what to add to which setting.
func TestEgress(t *testing.T) {
	try := exec.Command("true")
	if try.SysProcAttr = (&syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET}); try.Run() != nil {
		t.Log("not tried: this machine allows no user namespace")
		return
	}
	for name, uid := range users() {
		t.Run(name, func(t *testing.T) {
			s := start(t, folder(t, uid), uid, "-egress", "host.example,*.wild.example:8443")
			c := s.connect(t, "streamable")
			got := call(t, c, "run_command", map[string]any{"command": "curl -sS https://other.example/ || true; curl -sS https://host.example/ || true"})
			said := fmt.Sprint(got["notices"])
			if !strings.Contains(said, `add the rule "other.example" to EGRESS of make run`) || !strings.Contains(said, "host.example is allowed, but") {
				t.Errorf("notices %s", said)
			}
			s.interrupt(t)
		})
	}
	cmd := command(folder(t, os.Geteuid()), os.Geteuid(), "-egress", "no-such-tool,10.0.0.1")
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(string(out), "no-such-tool") || !strings.Contains(string(out), "10.0.0.1") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

package main

import (
	"strings"
	"testing"
)

// A command line that no installation could understand ends with 2 and one line, or the usage,
// on stderr, whatever the verb.
func TestWrongUsage(t *testing.T) {
	t.Chdir(t.TempDir())
	lines := []string{"", "nonsense", "doctor x", "doctor -as nobody", "attack x", "plan x", "token", "token nonsense", "token new a b", "token key",
		"token check", "token check -sha256 x a", "hosts", "hosts nonsense", "hosts *", "approve a b", "approve a -for week",
		"deny", "watch x", "ps x", "output", "output a b", "output a -bytes x", "output a -bytes -5", "stop", "stop a b", "resume a b",
		"sessions x", "servers x", "audit", "audit nonsense", "audit tail -n x", "audit grep -since x", "audit show", "audit show x",
		"import", "import a b", "accept", "accept a b c", "version x", "completion", "completion tcsh", "help nonsense"}
	for _, c := range program.Commands {
		lines = append(lines, c.Name+" -nonsense")
	}
	for _, verb := range []string{"verify", "tail", "grep", "show", "anchor"} {
		lines = append(lines, "audit "+verb+" -nonsense")
	}
	for _, line := range lines {
		var out, errs strings.Builder
		code := program.Run(t.Context(), strings.Fields(line), &out, &errs)
		if code != 2 || out.Len() > 0 || errs.Len() == 0 || strings.Contains(errs.String(), "Nothing is running") {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q", line, code, out.String(), errs.String())
		}
	}
}

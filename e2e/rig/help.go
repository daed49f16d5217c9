package rig

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

var listed = regexp.MustCompile(`(?m)^  ([a-z]+) {2,}\S`)

// CheckHelp holds a binary to what all of them do alike: -h lists the commands, each
// command has a usage of the same spelling, and what is no command is refused with it.
func CheckHelp(t *testing.T, name string) {
	t.Helper()
	bin := Binary(t, name)
	head, _, _ := strings.Cut(help(t, bin, "-h"), "\n\nSettings") // of its own
	commands := listed.FindAllStringSubmatch(head, -1)
	if len(commands) < 4 {
		t.Errorf("%s -h lists %d commands:\n%s", name, len(commands), head)
	}
	for _, c := range commands {
		own := help(t, bin, c[1], "-h")
		if other := help(t, bin, "help", c[1]); c[1] != "help" && other != own {
			t.Errorf("%s help %s is not %[2]s -h:\n%s\n%s", name, c[1], other, own)
		}
	}
	if out, err := exec.Command(bin, "version").Output(); err != nil || !strings.HasPrefix(string(out), name+" ") {
		t.Errorf("%s version: %s, %v", name, out, err)
	}
	for _, args := range [][]string{{"frobnicate"}, {commands[0][1], "-frobnicate"}} {
		cmd := exec.Command(bin, args...)
		var errs strings.Builder
		cmd.Stderr = &errs
		out, _ := cmd.Output()
		if code := cmd.ProcessState.ExitCode(); code != 2 || len(out) > 0 || !strings.Contains(errs.String(), "frobnicate") {
			t.Errorf("%s %s: exit code %d, %s%s", name, strings.Join(args, " "), code, out, errs.String())
		}
	}
}

// help runs a command line that prints a usage.
func help(t *testing.T, bin string, args ...string) string {
	t.Helper()
	cmd := exec.Command(bin, args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	name := bin[strings.LastIndexByte(bin, '/')+1:]
	if err != nil || errs.Len() > 0 || !strings.HasPrefix(string(out), "usage: "+name) || strings.Contains(string(out), "Usage:") {
		t.Errorf("%s %s: %v %s\n%s", name, strings.Join(args, " "), err, errs.String(), out)
	}
	return string(out)
}

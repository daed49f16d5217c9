package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/sandboxd/shared"
)

func TestEachCommandHasHelp(t *testing.T) {
	for _, c := range commands {
		var out, errs bytes.Buffer
		if code := help(t.Context(), []string{c.name}, &out, &errs); code != 0 || !strings.Contains(strings.ToLower(out.String()), "usage") || errs.Len() > 0 {
			t.Errorf("help %s: %d, stdout %q, stderr %q", c.name, code, out.String(), errs.String())
		}
	}
}

func TestHelpListsEveryCommand(t *testing.T) {
	var out bytes.Buffer
	if code := help(t.Context(), nil, &out, &out); code != 0 {
		t.Errorf("help: %d", code)
	}
	for _, c := range all() {
		if !strings.Contains(out.String(), "  "+c.name+" ") {
			t.Errorf("help does not list %s", c.name)
		}
	}
}

func TestVersion(t *testing.T) {
	var out bytes.Buffer
	if code := version(t.Context(), nil, &out, &out); code != 0 || !strings.HasPrefix(out.String(), "sandboxd "+shared.Version+" go") {
		t.Errorf("%d %q", code, out.String())
	}
}

func TestUnknownCommand(t *testing.T) {
	for _, args := range [][]string{{"frobnicate"}, {"help", "frobnicate"}} {
		if code := run(t.Context(), args); code != 2 {
			t.Errorf("%q: exit code %d", args, code)
		}
	}
}

// The script is tried in the shell that it is for, where that is installed.
func TestCompletionInBash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("SKIPPED, missing: bash")
	}
	var script bytes.Buffer
	if code := completion(t.Context(), []string{"bash"}, &script, &script); code != 0 {
		t.Fatal(script.String())
	}
	for line, want := range map[string]string{"sandboxd doc": "doctor", "sandboxd token ha": "hash", "sandboxd completion fi": "fish"} {
		fields := strings.Fields(line)
		ask := "COMP_WORDS=(" + line + "); COMP_CWORD=" + string(rune('0'+len(fields)-1)) + "; _sandboxd; echo \"${COMPREPLY[*]}\""
		cmd := exec.Command(bash, "-c", script.String()+ask)
		out, err := cmd.CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%s: %q, %v", line, out, err)
		}
	}
	var out, errs bytes.Buffer
	if code := completion(t.Context(), nil, &out, &errs); code != 2 || !strings.Contains(errs.String(), "name the shell") {
		t.Errorf("without a shell: %d %q", code, errs.String())
	}
}

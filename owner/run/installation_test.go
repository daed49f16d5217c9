package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A workspace from which a command could change what the owner runs next is
// refused, with both paths, wherever the token lies. The same start beside the
// installation serves.
func TestWorkspaceHoldsInstallation(t *testing.T) {
	base := folder(t, os.Geteuid())
	clone := filepath.Join(base, "clone")
	for _, dir := range []string{clone, filepath.Join(clone, "plugin"), filepath.Join(base, "beside")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(clone, "Makefile"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(folder(t, os.Geteuid()), "client-token")
	for _, workspace := range []string{"..", ".", "plugin", "../clone"} {
		cmd := command(clone, os.Geteuid(), "-workspace", workspace, "-token-file", token)
		out, _ := cmd.CombinedOutput()
		real, _ := filepath.EvalSymlinks(filepath.Join(clone, workspace))
		if code := cmd.ProcessState.ExitCode(); code == 0 || !strings.Contains(string(out), clone) || !strings.Contains(string(out), real) {
			t.Errorf("%s: exit code %d\n%s", workspace, code, out)
		}
	}
	s := start(t, clone, os.Geteuid(), "-workspace", "../beside", "-token-file", token)
	s.interrupt(t)
}

// The program itself in the workspace is refused too.
func TestWorkspaceHoldsProgram(t *testing.T) {
	dir := folder(t, os.Geteuid())
	cmd := command(dir, os.Geteuid(), "-workspace", filepath.Dir(binary))
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code == 0 || !strings.Contains(string(out), "the program \""+binary+"\"") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

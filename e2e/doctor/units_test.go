package doctor_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// systemd reads every unit of deploy without a word, and each has what keeps it apart.
// The twin: a unit with a line that systemd does not know is named.
func TestUnits(t *testing.T) {
	units, err := filepath.Glob(filepath.Join(rig.Root(t), "deploy", "*.service"))
	if err != nil || len(units) < 3 {
		t.Fatalf("units: %q, %v", units, err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/bin", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, unit := range units {
		raw, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"\nNoNewPrivileges=true\n", "\nCapabilityBoundingSet=", "\nRestartPreventExitStatus=", "\nProtectSystem=strict\n", "\nUser=", "\nLoadCredential="} {
			if !bytes.Contains(raw, []byte(line)) {
				t.Errorf("%s has no line %q", filepath.Base(unit), strings.TrimSpace(line))
			}
		}
		raw = bytes.ReplaceAll(raw, []byte("@PREFIX@"), []byte(dir))
		for _, program := range regexp.MustCompile(`(?m)^Exec\w+=(\S+)`).FindAllSubmatch(raw, -1) {
			if err := os.WriteFile(string(program[1]), []byte("#!/bin/sh\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		name := filepath.Join(dir, filepath.Base(unit))
		if said := verifyUnit(t, name, raw); said != "" {
			t.Errorf("systemd-analyze verify %s: %s", filepath.Base(unit), said)
		}
		broken := bytes.Replace(raw, []byte("NoNewPrivileges="), []byte("NoNewPrivilege="), 1)
		if said := verifyUnit(t, name, broken); hasAnalyze() && !strings.Contains(said, "NoNewPrivilege") {
			t.Errorf("the twin, a wrong line in %s: %q", filepath.Base(unit), said)
		}
	}
}

func hasAnalyze() bool {
	_, err := exec.LookPath("systemd-analyze")
	return err == nil
}

// verifyUnit is what systemd says of a unit; empty where there is no systemd.
func verifyUnit(t *testing.T, name string, raw []byte) string {
	t.Helper()
	if err := os.WriteFile(name, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	if !hasAnalyze() {
		t.Log("systemd-analyze is not here: the syntax was not checked")
		return ""
	}
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", name).CombinedOutput()
	var ours []string // it speaks of the machine's own units too
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, filepath.Base(name)) {
			ours = append(ours, line)
		}
	}
	if err != nil && len(ours) == 0 {
		return err.Error() + ": " + string(out)
	}
	return strings.Join(ours, "")
}

package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// breaks are programs that lost one of their controls: in file, old became new. said
// is what the start says then.
var breaks = []struct{ name, file, old, new, said string }{
	{"class table", "internal/netclass/netclass.go", `case !a.IsValid():`, `case true: return Public; case !a.IsValid():`, "takes 10.0.0.1 for public"},
	{"class table, one row", "internal/netclass/netclass.go", `r("169.254.0.0/16"`, `r("169.254.0.0/32"`, "takes 169.254.169.254 for public"},
	{"ceiling", "egress/decision/decision.go", `if inGranted && inCeiling {`, `if inGranted {`, "must be refused as above_ceiling"},
	{"names", "internal/egressrule/name.go", `if isNumber(last) {`, `if last == "x" {`, "must be refused as bad_name"},
	{"labels", "internal/egressrule/name.go", `if c != '-' && !isAlnum(c) {`, `if c == 0 {`, "must be refused as bad_name"},
	{"Host", "egress/proxy/head.go", `err != nil || got != t {`, `err != nil || got.Clear != t.Clear {`, "must be refused as bad_request"},
	{"SNI", "egress/proxy/tunnel.go", `!strings.EqualFold(name, t.Name):`, `strings.EqualFold(name, ""):`, "is ok, not sni_mismatch"},
	{"no TLS", "egress/proxy/tunnel.go", `return nil, decision.Refuse(decision.NoTLS,`, `return hello, nil; return nil, decision.Refuse(decision.NoTLS,`, "clear text behind a CONNECT is ok"},
	{"grants", "egress/proxy/server.go", `egressrule.Parse)`, `egressrule.ParseCeiling)`, `rule "*"`},
	{"key", "internal/keysocket/server.go", `if !s.Sum.accepts(line[:]) {`, `if false {`, "without its key"},
}

// A program without one of its controls does not start, and says which. The twin is
// the one that every other test starts.
func TestBrokenEgressDoesNotStart(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	os.WriteFile(dir+"/key", []byte(key), 0o600)
	for _, b := range breaks {
		t.Run(b.name, func(t *testing.T) {
			source, err := os.ReadFile(filepath.Join(root, b.file))
			if err != nil || strings.Count(string(source), b.old) != 1 {
				t.Fatalf("%s has not one %q: %v", b.file, b.old, err)
			}
			os.WriteFile(dir+"/broken.go", []byte(strings.Replace(string(source), b.old, b.new, 1)), 0o600)
			overlay, _ := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, b.file): dir + "/broken.go"}})
			os.WriteFile(dir+"/overlay", overlay, 0o600)
			build := exec.Command("go", "build", "-overlay", dir+"/overlay", "-o", dir+"/broken", ".")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v %s", err, out)
			}
			cmd := exec.Command(dir + "/broken")
			cmd.Env = []string{"EGRESS_SOCKET=" + dir + "/s", "EGRESS_KEY_FILE=" + dir + "/key", "EGRESS_ALLOW=ok.example"}
			deadline := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
			defer deadline.Stop()
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(string(out), "self-test failed") || !strings.Contains(string(out), b.said) ||
				strings.Contains(string(out), "listening") {
				t.Errorf("code %d, want %q: %s", code, b.said, out)
			}
		})
	}
}

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Settings that contradict allowlist stop the start. What a machine without
// namespaces answers is part of TestLockedContainer.
func TestRefusedStart(t *testing.T) {
	if !rootHere(t) {
		return
	}
	dir := t.TempDir()
	os.Chmod(dir, 0o755)
	os.WriteFile(dir+"/key", []byte(key), 0o600)
	os.Mkdir(dir+"/w", 0o700)
	for want, env := range map[string][]string{
		"needs MCP_EGRESS_SOCKET and MCP_EGRESS_KEY_FILE": nil,
		"needs MCP_JAIL=full":                             {"MCP_JAIL=group", "MCP_EGRESS_SOCKET=/x/s", "MCP_EGRESS_KEY_FILE=" + dir + "/key"},
		"MCP_EGRESS \"*,10.0.0.1\"":                       {"MCP_EGRESS=*,10.0.0.1"},
	} {
		cmd := exec.Command(filepath.Join(filepath.Dir(binary), "sandboxd"))
		cmd.Env = append([]string{"MCP_WORKSPACE=" + dir + "/w", "MCP_AUTH_TOKEN=" + token, "MCP_COMMAND_NETWORK=allowlist"}, env...)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(string(out), want) {
			t.Errorf("%v: code %d, %s", env, code, out)
		}
	}
}

package main_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Settings that contradict allowlist stop the start.
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

// A machine that allows no user namespaces: the start is refused, with the ways out. The
// twin is the same start without that limit.
func TestRefusedWithoutUserNamespaces(t *testing.T) {
	if !rootHere(t) {
		return
	}
	for limit, refused := range map[string]bool{"0": true, "100": false} {
		dir, err := os.MkdirTemp("/var", "egress-denied")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		os.WriteFile(dir+"/key", []byte(key), 0o600)
		os.Mkdir(dir+"/w", 0o700)
		for _, name := range []string{"", "/key", "/w"} {
			os.Chown(dir+name, 54321, 54321)
		}
		// A user namespace whose own limit counts: for whoever is in it, that is the machine.
		cmd := exec.Command("sh", "-c", `echo $LIMIT >/proc/sys/user/max_user_namespaces && exec setpriv --ambient-caps -all --inh-caps -all "$0"`,
			filepath.Join(filepath.Dir(binary), "sandboxd"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, AmbientCaps: []uintptr{unix.CAP_SYS_RESOURCE},
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 54321, HostID: 54321, Size: 1}}, GidMappings: []syscall.SysProcIDMap{{ContainerID: 54321, HostID: 54321, Size: 1}},
			Credential: &syscall.Credential{Uid: 54321, Gid: 54321, NoSetGroups: true}}
		cmd.Env = []string{"LIMIT=" + limit, "PATH=/usr/bin:/bin", "MCP_ADDR=127.0.0.1:0", "MCP_WORKSPACE=" + dir + "/w", "MCP_AUTH_TOKEN=" + token,
			"MCP_COMMAND_NETWORK=allowlist", "MCP_EGRESS_SOCKET=" + dir + "/s", "MCP_EGRESS_KEY_FILE=" + dir + "/key"}
		log, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		serves := false
		for lines := bufio.NewScanner(log); !serves && lines.Scan(); {
			said.WriteString(lines.Text() + "\n")
			serves = strings.Contains(lines.Text(), `"serving"`)
		}
		if serves {
			cmd.Process.Signal(syscall.SIGTERM)
		}
		cmd.Wait()
		if serves == refused || refused && (cmd.ProcessState.ExitCode() != 3 || !strings.Contains(said.String(), "user.max_user_namespaces") || !strings.Contains(said.String(), "MCP_COMMAND_NETWORK=none")) {
			t.Errorf("limit %s: serves %v, %v: %s", limit, serves, cmd.ProcessState, said.String())
		}
	}
}

package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// Where user namespaces are denied a command runs as the owner of sandboxd's keys
// and tokens and can change their modes. They are changed back, and the log says
// so. The twin: what nobody keeps stays open.
func TestModesOfKeysAreKept(t *testing.T) {
	rig.NeedRoot(t)
	id, _ := strconv.Atoi(uid)
	dir, workspace := owned(t, id), rig.PublicDir(t)
	token, key, twin := filepath.Join(dir, "owner", "token"), filepath.Join(dir, "owner", "key"), filepath.Join(dir, "run", "twin")
	for _, name := range []string{token, twin} {
		if err := os.WriteFile(name, []byte(strings.Repeat("t", 43)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{token, twin, workspace} {
		if err := os.Chown(name, id, id); err != nil {
			t.Fatal(err)
		}
	}
	addr := rig.FreeAddr(t)
	cmd := exec.Command("/bin/sh", "-c", "echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --reuid="+uid+" --regid="+uid+" --clear-groups \"$0\"",
		rig.Binary(t, "sandboxd"))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "MCP_ADDR=" + addr, "MCP_WORKSPACE=" + workspace, "MCP_AUTH_TOKEN_FILE=" + token,
		"MCP_OWNER_SOCKET=" + dir + "/run/owner.sock", "MCP_OWNER_KEY_FILE=" + key, "MCP_MAX_PROCESSES=400"}
	all := []syscall.SysProcIDMap{{Size: 1 << 31}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: all, GidMappings: all, GidMappingsEnableSetgroups: true}
	s := rig.Start(t, cmd)
	rig.Until(t, "sandboxd's health endpoint", func() bool { return rig.Status("http://"+addr+"/healthz") == 200 }, s)
	session := rig.Connect(t, "http://"+addr+"/mcp-sandbox", strings.Repeat("t", 43), rig.Streamable)
	run := func(command string) string {
		return rig.Text(rig.TryCall(t, session, "run_command", rig.Args{"command": command}))
	}
	for _, change := range []string{"644", "000"} {
		said := run("chmod " + change + " " + token + " " + key + " " + twin + " && chmod 755 " + filepath.Dir(key) + " && echo changed")
		if !strings.Contains(said, "changed") {
			t.Fatalf("the twin: the modes cannot be changed here: %s", said)
		}
		rig.Until(t, "the modes are back", func() bool {
			return perm(token) == 0o600 && perm(key) == 0o600 && perm(filepath.Dir(key)) == 0o700
		})
		if got := perm(twin); got == 0o600 {
			t.Errorf("the twin has its mode again: %v", got)
		}
	}
	s.Stop()
	if !strings.Contains(s.Log.String(), key+": it was changed back") {
		t.Errorf("the log does not say it:\n%s", s.Log)
	}
}

func perm(path string) os.FileMode {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Mode().Perm()
}

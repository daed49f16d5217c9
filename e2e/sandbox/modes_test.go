package sandbox

import (
	"errors"
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
	s := withoutNamespaces(t, "MCP_ADDR="+addr, "MCP_WORKSPACE="+workspace, "MCP_AUTH_TOKEN_FILE="+token,
		"MCP_OWNER_SOCKET="+dir+"/run/owner.sock", "MCP_OWNER_KEY_FILE="+key, "MCP_MAX_PROCESSES=400")
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

// withoutNamespaces starts sandboxd as an ordinary account on a machine without user namespaces.
func withoutNamespaces(t *testing.T, env ...string) *rig.Process {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", "echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --reuid="+uid+" --regid="+uid+" --clear-groups \"$0\"",
		rig.Binary(t, "sandboxd"))
	cmd.Env = append(env, "PATH="+os.Getenv("PATH"))
	all := []syscall.SysProcIDMap{{Size: 1 << 31}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: all, GidMappings: all, GidMappingsEnableSetgroups: true}
	return rig.Start(t, cmd)
}

// Whatever of the account's own a last command closed, the next start opens it again.
// The twin: what is nobody's of sandboxd's stays closed.
func TestLastCommandStopsNoStart(t *testing.T) {
	rig.NeedRoot(t)
	id, _ := strconv.Atoi(uid)
	workspace, home := rig.PublicDir(t), rig.PublicDir(t)
	path := func(name string) string { return filepath.Join(home, name) }
	token := strings.Repeat("t", 43)
	err := errors.Join(os.Mkdir(path("private"), 0o700), os.Mkdir(path("audit"), 0o700), os.Mkdir(path("twin"), 0o700),
		os.WriteFile(path("token"), []byte(token), 0o600))
	for _, name := range []string{workspace, path("private"), path("audit"), path("twin"), path("token")} {
		err = errors.Join(err, os.Chown(name, id, id))
	}
	if err != nil {
		t.Fatal(err)
	}
	addr := rig.FreeAddr(t)
	run := func(command string) string {
		s := withoutNamespaces(t, "MCP_ADDR="+addr, "MCP_WORKSPACE="+workspace, "MCP_AUTH_TOKEN_FILE="+path("token"),
			"MCP_PRIVATE_DIR="+path("private"), "MCP_AUDIT_FILE="+path("audit/audit.jsonl"), "MCP_MAX_PROCESSES=400")
		rig.Until(t, "sandboxd's health endpoint", func() bool { return rig.Status("http://"+addr+"/healthz") == 200 }, s)
		session := rig.Connect(t, "http://"+addr+"/mcp-sandbox", token, rig.Streamable)
		defer func() { s.Kill(); <-s.Done }() // an orderly stop restores the audit
		return rig.Text(rig.TryCall(t, session, "run_command", rig.Args{"command": command}))
	}
	audit, persons := path("audit"), path("private/persons-"+uid)
	said := run("cd " + audit + "; chmod 0 audit.jsonl audit.jsonl.key audit.jsonl.pub audit.jsonl.checkpoints " + audit + " " +
		path("twin") + " " + persons + " " + path("private") + " " + workspace + " && echo changed")
	if !strings.Contains(said, "changed") {
		t.Fatalf("the modes cannot be changed here: %s", said)
	}
	if said = run("echo again"); !strings.Contains(said, "again") {
		t.Error(said)
	}
	for name, want := range map[string]os.FileMode{audit: 0o700, audit + "/audit.jsonl.key": 0o600, persons: 0o700, path("twin"): 0} {
		if got := perm(name); got != want {
			t.Errorf("%s: mode %v, want %v", name, got, want)
		}
	}
}

func perm(path string) os.FileMode {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Mode().Perm()
}

package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// probes try what is the owner's, as a shell script in which A is the audit's
// folder, S the socket and K the key file. Names are no secret: Landlock's rules
// here do not cover listing a directory. Each prints "GOT name" if it got
// through. The last one changes the folder's mode.
const probes = `
got() { n=$1; shift; if "$@" >/dev/null 2>&1; then echo "GOT $n"; fi; }
ask() { perl -e 'use Socket; socket(S, 1, 1, 0) && connect(S, sockaddr_un($ARGV[0])) or die; syswrite(S, $ARGV[1] . "\n"); sysread(S, $b, 3); exit($b ne "ok\n")' "$S" "$1"; }
got "read the records" cat "$A/audit.jsonl"
got "add a record" sh -c 'echo x >> "$1"; tail -c 2 "$1" | grep -q x && sed -i "\$d" "$1"' - "$A/forged"
got "remove the records" sh -c 'mv "$1" "$1.x" && mv "$1.x" "$1"' - "$A/audit.jsonl"
got "read the chain's key" cat "$A/audit.jsonl.key"
got "read the socket's key" cat "$K"
got "replace the socket" sh -c 'mv "$1" "$1.x" && mv "$1.x" "$1"' - "$S"
got "ask without the key" ask 0000000000000000000000000000000000000000000000000000000000000000
got "ask with the key" ask "$(cat "$K" 2>/dev/null)"
`

// through are the probes that get through where no jail is: the twin.
var through = []string{"read the records", "add a record", "remove the records", "read the chain's key",
	"read the socket's key", "replace the socket", "ask with the key"}

// owned is a folder with all that is the owner's, given to the account.
func owned(t *testing.T, id int) (dir string) {
	t.Helper()
	dir = rig.PublicDir(t)
	for _, sub := range []string{"audit", "run", "owner"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	key := filepath.Join(dir, "owner", "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("0a", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"audit", "run", "owner", "owner/key"} {
		if err := os.Chown(filepath.Join(dir, name), id, id); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func compareProbes(t *testing.T, inside, twin string) {
	t.Helper()
	if strings.Contains(inside, "GOT") {
		t.Errorf("a command got through:\n%s", inside)
	}
	for _, name := range through {
		if !strings.Contains(twin+"\n", "GOT "+name+"\n") {
			t.Errorf("twin, without the jail: %q did not get through:\n%s", name, twin)
		}
	}
	if strings.Contains(twin, "GOT ask without the key") {
		t.Error("the socket answers without its key")
	}
}

// chmodded lets a command take the folder's mode away; the next records are
// written all the same, and the mode is back at the end.
func chmodded(t *testing.T, folder string, run func(command string) string, stop func()) {
	t.Helper()
	run(`chmod 000 "` + folder + `"; chmod 777 "` + folder + `"; true`)
	run("true")
	stop()
}

// standardNote reads the newest checkpoint with the library that Go's checksum
// database uses.
func standardNote(t *testing.T, file string) {
	t.Helper()
	pub, err := os.ReadFile(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	key, err := note.NewVerifier(strings.TrimSpace(string(pub)))
	if err != nil {
		t.Fatal(err)
	}
	newest, err := exec.Command(rig.Binary(t, "sallyport"), "audit", "anchor", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := note.Open(newest, note.VerifierList(key)); err != nil || !strings.HasPrefix(n.Text, key.Name()+"\n") {
		t.Errorf("%v\n%s", err, newest)
	}
}

func verified(t *testing.T, file string) {
	t.Helper()
	out, err := exec.Command(rig.Binary(t, "sallyport"), "audit", "verify", file).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "whole") {
		t.Errorf("%v\n%s", err, out)
	}
	standardNote(t, file)
	if info, err := os.Stat(filepath.Dir(file)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder's mode: %v %v", info.Mode(), err)
	}
}

// On a bare machine, as the account that sandboxd runs as.
func TestOwnersFilesAreOutOfReach(t *testing.T) {
	rig.NeedRoot(t)
	id, _ := strconv.Atoi(uid)
	dir, workspace := owned(t, id), rig.PublicDir(t)
	if err := os.Chown(workspace, id, id); err != nil {
		t.Fatal(err)
	}
	env := []string{"A=" + dir + "/audit", "S=" + dir + "/run/owner.sock", "K=" + dir + "/owner/key"}
	s := rig.StartSandboxd(t, rig.SandboxdOptions{Workspace: workspace, Env: []string{
		"MCP_AUDIT_FILE=" + dir + "/audit/audit.jsonl", "MCP_OWNER_SOCKET=" + dir + "/run/owner.sock", "MCP_OWNER_KEY_FILE=" + dir + "/owner/key",
	}})
	session := rig.Connect(t, s.URL+"/mcp-sandbox", s.Token, rig.Streamable)
	run := func(command string) string {
		return rig.Text(rig.TryCall(t, session, "run_command", rig.Args{"command": "export " + strings.Join(env, " ") + "\n" + command}))
	}
	twin := exec.Command("sh", "-c", probes)
	twin.Env = append(os.Environ(), env...)
	twin.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(id), Gid: uint32(id)}}
	without, _ := twin.CombinedOutput()
	compareProbes(t, run(probes), string(without))
	chmodded(t, dir+"/audit", run, s.Stop)
	verified(t, dir+"/audit/audit.jsonl")
}

// In the locked container, where commands share account and file system with
// the server and may open unix sockets.
func TestOwnersFilesAreOutOfReachInContainer(t *testing.T) {
	d := rig.NeedImages(t)
	id, _ := strconv.Atoi(uid)
	dir := owned(t, id)
	addr := rig.FreeAddr(t)
	args := serve(t, "-p", addr+":8000", "-v", dir+"/audit:/audit", "-v", dir+"/run:/run/owner", "-v", dir+"/owner/key:/run/owner-key:ro", "-v", "/usr:/usr:ro",
		"-e", "MCP_AUDIT_FILE=/audit/audit.jsonl", "-e", "MCP_OWNER_SOCKET=/run/owner/owner.sock", "-e", "MCP_OWNER_KEY_FILE=/run/owner-key")
	container := d.Container(args...)
	rig.Until(t, "the container's health", func() bool { return rig.Status("http://"+addr+"/healthz") == 200 })
	session := rig.Connect(t, "http://"+addr+"/mcp-sandbox", strings.Repeat("t", 43), rig.Streamable)
	exports := "export A=/audit S=/run/owner/owner.sock K=/run/owner-key\n"
	run := func(command string) string {
		return rig.Text(rig.TryCall(t, session, "run_command", rig.Args{"command": exports + command}))
	}
	without := d.Run("exec", container, "sh", "-c", exports+probes)
	inside := run(probes)
	compareProbes(t, inside, without)
	chmodded(t, "/audit", run, func() { d.Run("stop", "-t", "10", container) })
	verified(t, dir+"/audit/audit.jsonl")
}

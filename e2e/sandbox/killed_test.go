package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// What a server that was killed left in TMPDIR, its commands' HOME and caches, goes at the very
// next start. The twins stay: a living server's, what is no directory, and another account's.
func TestKilledServersDirectoriesAreSwept(t *testing.T) {
	rig.NeedRoot(t)
	id, _ := strconv.Atoi(uid)
	temp, token := filepath.Join(rig.PublicDir(t), "tmp"), strings.Repeat("t", 43)
	foreign, link, elsewhere := filepath.Join(temp, "sallyport-private-foreign"), filepath.Join(temp, "sallyport-private-link"), rig.PublicDir(t)
	err := errors.Join(os.Mkdir(temp, 0o777), os.Chmod(temp, 0o777|os.ModeSticky), os.Mkdir(foreign, 0o777), os.Symlink(elsewhere, link),
		os.WriteFile(filepath.Join(elsewhere, "file"), nil, 0o666), os.Chown(elsewhere, id, id), os.Lchown(link, id, id))
	if err != nil {
		t.Fatal(err)
	}
	start := func() (s *rig.Process, home string) {
		workspace, addr := rig.PublicDir(t), rig.FreeAddr(t)
		if err := os.Chown(workspace, id, id); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("setpriv", "--reuid="+uid, "--regid="+uid, "--clear-groups", rig.Binary(t, "sandboxd"))
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + temp, "MCP_ADDR=" + addr, "MCP_WORKSPACE=" + workspace,
			"MCP_AUTH_TOKEN=" + token, "MCP_MAX_PROCESSES=400"}
		s = rig.Start(t, cmd)
		rig.Until(t, "sandboxd's health endpoint", func() bool { return rig.Status("http://"+addr+"/healthz") == 200 }, s)
		session := rig.Connect(t, "http://"+addr+"/mcp-sandbox", token, rig.Streamable)
		said := rig.Text(rig.TryCall(t, session, "run_command", rig.Args{"command": "touch $HOME/left; chmod 0 $HOME/left; echo HOME:$HOME"}))
		_, home, _ = strings.Cut(strings.TrimSpace(said), "HOME:")
		if _, err := os.Stat(filepath.Join(home, "left")); err != nil || !strings.HasPrefix(home, temp) {
			t.Fatalf("%v: %s", err, said)
		}
		return s, home
	}
	alive, kept := start()
	dead, left := start()
	dead.Kill() // all of it: a server in a namespace would end in good order after its parent
	<-dead.Done
	if _, err := os.Stat(left); err != nil {
		t.Fatalf("twin: without a start it stays: %v", err)
	}
	last, _ := start()
	rig.Until(t, "what the killed one left to go", func() bool { _, err := os.Stat(filepath.Dir(filepath.Dir(left))); return err != nil })
	for _, stays := range []string{kept + "/left", foreign, link, elsewhere + "/file"} {
		if _, err := os.Lstat(stays); err != nil {
			t.Error(err)
		}
	}
	alive.Stop()
	last.Stop()
	if rest, _ := filepath.Glob(temp + "/sallyport-*"); len(rest) != 2 {
		t.Errorf("after an orderly end there is %v", rest)
	}
}

package main_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A second start in one installation says so; the twin is one beside it.
func TestStartedTwice(t *testing.T) {
	dir := folder(t, os.Geteuid())
	s := start(t, dir, os.Geteuid())
	out, _ := command(dir, os.Geteuid()).CombinedOutput()
	if !strings.Contains(string(out), "already being served ("+s.url+")") {
		t.Errorf("%s", out)
	}
	if raw, _ := os.ReadFile(filepath.Join(dir, ".sallyport/run/sandboxd/url")); string(raw) != s.url+"\n" {
		t.Errorf("doctor would look at %q", raw)
	}
	start(t, folder(t, os.Geteuid()), os.Geteuid()).interrupt(t)
	s.interrupt(t)
}

// A home as the workspace is warned of, once; the twin is a folder beside it.
func TestHomeIsWarnedOf(t *testing.T) {
	dir, home, other := folder(t, os.Geteuid()), folder(t, os.Geteuid()), folder(t, os.Geteuid())
	for workspace, want := range map[string]int{home: 1, other: 0} {
		cmd := command(dir, os.Geteuid(), "-workspace", workspace)
		cmd.Env = append(cmd.Env, "HOME="+home)
		s := startCommand(t, cmd, dir)
		s.interrupt(t)
		if n := strings.Count(s.errs.String(), "WARNING: "+home+" is a home directory"); n != want {
			t.Errorf("%s: warned %d times", workspace, n)
		}
	}
}

// Records, key and socket stay in .sallyport wherever the token is, and a start
// that is refused leaves no key.
func TestWhereTheFilesAre(t *testing.T) {
	dir, elsewhere := folder(t, os.Geteuid()), folder(t, os.Geteuid())
	cmd := command(dir, os.Geteuid())
	cmd.Env = append(cmd.Env, "MCP_TOOLS=nonsense")
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Fatalf("it started: %s", out)
	}
	if _, err := os.Stat(filepath.Join(dir, ".sallyport")); err == nil {
		t.Error("the refused start left .sallyport")
	}
	s := start(t, dir, os.Geteuid(), "-token-file", filepath.Join(elsewhere, "token"))
	if _, err := os.Stat(filepath.Join(dir, ".sallyport/owner/key")); err != nil {
		t.Error(err)
	}
	if list, _ := os.ReadDir(elsewhere); len(list) != 1 {
		t.Errorf("beside the token: %v", list)
	}
	s.interrupt(t)
}

// A start that fails later, since the port is taken or the jail cannot be built,
// leaves neither key nor token either. The twin is the start above.
func TestFailedStartLeavesNoKey(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, c := range map[string]struct{ env, say string }{
		"port": {"HOME=/", "is taken"},
		// A directory that no command may enter is no place to hold commands.
		"jail": {"MCP_PRIVATE_DIR=/proc/nowhere", "/proc/nowhere"},
	} {
		dir := folder(t, os.Geteuid())
		args := []string{"-addr", l.Addr().String()}
		if name == "jail" {
			args = nil
		}
		cmd := command(dir, os.Geteuid(), args...)
		cmd.Env = append(cmd.Env, c.env)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.say) {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		for _, file := range []string{"owner/key", "edge/client-token"} {
			if _, err := os.Stat(filepath.Join(dir, ".sallyport", file)); err == nil {
				t.Errorf("%s: the failed start left %s", name, file)
			}
		}
	}
}

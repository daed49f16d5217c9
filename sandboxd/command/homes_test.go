package command_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/sandboxd/command"
)

// outputOf is what a line of owner's writes to stdout, run to its end.
func outputOf(t *testing.T, r *command.Runner, owner, line string) string {
	t.Helper()
	c, err := r.Start(t.Context(), owner, line, "", long)
	if err != nil {
		t.Fatal(err)
	}
	_, stdout, _ := ended(t, c)
	return stdout
}

// What one person leaves in HOME runs in nobody else's commands, and cannot be
// read by them. The same files are there again in the person's own next command,
// whatever the grant it comes with.
func TestEachPersonHasAHome(t *testing.T) {
	r, _, private := newRunner(t, 4096)
	mallory, alice := "token:mallory", "oauth:alice@example.net#grant1"
	outputOf(t, r, mallory, `echo 'exit 7' >~/.profile; printf '[alias]\n\tst = !echo mine\n' >~/.gitconfig; echo x >$TMPDIR/file; chmod -R a+rwX ~ $TMPDIR`)
	theirs := filepath.Join(private, "token_3amallory")
	if _, err := os.Stat(filepath.Join(theirs, "home/.profile")); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`cat ` + theirs + `/home/.profile`, `ls ` + theirs, `ls ` + private, `echo x >` + theirs + `/home/.bashrc`, `rm ` + theirs + `/tmp/file`,
		`cat ~/.profile`, `git config --get alias.st`,
	} {
		if got := outputOf(t, r, alice, line+` >/dev/null 2>&1 && echo done`); got != "" {
			t.Errorf("alice: %s: done", line)
		}
		if got := outputOf(t, r, mallory, line+` >/dev/null 2>&1 && echo done`); got == "" && !strings.HasPrefix(line, "ls "+private) {
			t.Errorf("mallory, whose it is: %s: not done", line)
		}
	}
	outputOf(t, r, alice, `echo kept >~/note`)
	for owner, want := range map[string]string{"oauth:alice@example.net#grant2": "kept\n", "oauth:alice@example.ne": "", "token:alice": ""} {
		if got := outputOf(t, r, owner, `cat ~/note 2>/dev/null`); got != want {
			t.Errorf("%s reads %q", owner, got)
		}
	}
}

// No start-up file is read, not even the person's own.
func TestNoProfileIsRead(t *testing.T) {
	r, _, _ := newRunner(t, 4096)
	output(t, r, `for f in .profile .bashrc .bash_profile .shrc; do echo 'echo read; exit 7' >~/$f; done`, "")
	if got := output(t, r, `echo ran`, ""); got != "ran\n" {
		t.Errorf("%q", got)
	}
	if got := output(t, r, `sh -lc 'echo ran'`, ""); !strings.Contains(got, "read") {
		t.Errorf("the twin, a login shell, read no profile: %q", got)
	}
}

// A command can take its own directories away: the next one finds them again and
// is told.
func TestHomesAreRestored(t *testing.T) {
	r, _, private := newRunner(t, 4096)
	for line, words := range map[string]string{
		`chmod 000 "$HOME/../.."`:                           "", // everybody's, where commands have no mounts of their own
		`chmod 777 "$HOME/../.."`:                           "",
		`rm -rf "$TMPDIR"`:                                  "",
		`mv "$HOME" "$TMPDIR/x"`:                            "",
		`rm -rf "$HOME"; echo x >"$HOME"`:                   "HOME was not a directory",
		`rm -rf "$TMPDIR"; ln -s /etc "$TMPDIR"`:            "TMPDIR was not a directory",
		`chmod 000 "$HOME"`:                                 "HOME was closed (mode 0000)",
		`cd "$HOME/.."; chmod 000 home tmp go; chmod 000 .`: "GOPATH was closed",
		`chmod 555 "$GOCACHE"`:                              "GOCACHE was closed (mode 0555)",
	} {
		output(t, r, line, "")
		c, err := r.Start(t.Context(), "", `echo x >"$HOME/f" && echo x >"$TMPDIR/f" && echo x >"$GOCACHE/f" && [ ! -L "$TMPDIR" ] && echo usable`, "", long)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		_, got, words2 := ended(t, c)
		if got != "usable\n" || !strings.Contains(strings.Join(c.Notices, "\n"), words) {
			t.Errorf("%s: %q %q, notices %q", line, got, words2, c.Notices)
		}
		if info, err := os.Stat(private); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: the directory of all: %v %v", line, info, err)
		}
		if c, err = r.Start(t.Context(), "", "true", "", long); err != nil || len(c.Notices) > 0 {
			t.Errorf("%s: the notice stays: %v", line, err)
		}
		ended(t, c)
	}
}

// The number of homes is bounded: the longest unused one goes.
func TestHomesAreBounded(t *testing.T) {
	r, _, private := newRunner(t, 4096)
	outputOf(t, r, "token:first", `echo x >~/f`)
	outputOf(t, r, "token:second", `echo x >~/f`)
	outputOf(t, r, "token:first", `true`)
	for i := range 63 {
		outputOf(t, r, fmt.Sprintf("token:t%d", i), ":")
	}
	if _, err := os.Stat(filepath.Join(private, "token_3afirst/home/f")); err != nil {
		t.Errorf("used later, yet gone: %v", err)
	}
	if _, err := os.Stat(filepath.Join(private, "token_3asecond")); err == nil {
		t.Error("65 are kept")
	}
}

// A command may end beside Close and after it: what it leaves is not measured
// then, since nobody waits for that. The race detector sees the fault; the
// directory is large, so that measuring it takes time.
func TestHomesCloseBesideAnEnd(t *testing.T) {
	for moment := range 6 {
		r, workspace, private := newRunner(t, 4096)
		many := filepath.Join(private, "local", "home", "many")
		if err := os.MkdirAll(many, 0o700); err != nil {
			t.Fatal(err)
		}
		for i := range 2000 {
			if err := os.WriteFile(filepath.Join(many, fmt.Sprint(i)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		c, err := r.Start(ctx, "", "echo $$ >pid; exec sleep 1000", "", long)
		if err != nil {
			t.Fatal(err)
		}
		pid := readPID(t, filepath.Join(workspace, "pid"))
		cancel()
		for unix.Kill(pid, 0) == nil { // Done would hide the race
			time.Sleep(time.Millisecond / 10)
		}
		time.Sleep(time.Duration(moment) * time.Millisecond)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		<-c.Done()
	}
}

package serve_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/sandboxd/serve"
)

// A start removes the private directories of servers that were killed, also
// with what their owner may not change, and no others.
func TestSweepOfPrivateDirectories(t *testing.T) {
	temp, past := t.TempDir(), time.Now().Add(-time.Hour)
	for _, name := range []string{"sallyport-private-dead", "sallyport-private-closed", "sallyport-private-recent", "sallyport-private-alive", "sallyport-private-new-1", "sallyport-private-new-2", "sallyport-private-foreign", "sallyport-other"} {
		fixed := filepath.Join(temp, name, "go", "mod")
		err := errors.Join(os.MkdirAll(fixed, 0o755), os.WriteFile(filepath.Join(fixed, "file"), nil, 0o444), os.Chmod(fixed, 0o555))
		if name != "sallyport-private-new-1" && name != "sallyport-private-recent" {
			err = errors.Join(err, os.Chtimes(filepath.Join(temp, name), past, past))
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(fixed, 0o755) })
	}
	root := os.Geteuid() == 0 // who alone can give a directory away, and remove another's
	if err := os.Chown(filepath.Join(temp, "sallyport-private-foreign"), 64999, -1); root && err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(temp, "sallyport-private-link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(temp, "sallyport-private-closed"), 0); err != nil {
		t.Fatal(err)
	}
	alive, err := os.Open(filepath.Join(temp, "sallyport-private-alive"))
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	if err := syscall.Flock(int(alive.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	serve.SweepPrivate(temp)
	for name, stays := range map[string]bool{
		"sallyport-private-dead": false, "sallyport-private-closed": false, "sallyport-private-alive/go/mod/file": true, "sallyport-private-recent": false,
		"sallyport-private-new-1/go/mod/file": true, "sallyport-private-new-2": false, // without a lock yet, a minute long
		"sallyport-other/go/mod/file": true, "sallyport-private-link": true,
		"sallyport-private-foreign": root,
	} {
		if _, err := os.Lstat(filepath.Join(temp, name)); (err == nil) != stays {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A place for private directories that cannot be used is refused with what to do
// on this machine or for this container; the twin is one that can.
func TestKeptDirSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	if got, err := serve.KeptDir(dir, false); err != nil || filepath.Dir(got) != dir {
		t.Errorf("%q %v", got, err)
	}
	ways := map[bool]string{false: "install -d -o ", true: "docker run --tmpfs "}
	for container, want := range ways {
		_, err := serve.KeptDir(filepath.Join(dir, "missing"), container)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), ways[!container]) {
			t.Errorf("in a container %t: %v", container, err)
		}
	}
}

// What a command of before made of the modes does not stop a start; a directory of
// another account does.
func TestKeptDirIsRestored(t *testing.T) {
	chosen := t.TempDir()
	dir, err := serve.KeptDir(chosen, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0, 0o300, 0o777, 0o755} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		_, err := serve.KeptDir(chosen, false)
		if info, _ := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("mode %v: %v, %v", mode, err, info)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("only root makes another account's directory")
	}
	if err := os.Chown(dir, 64999, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := serve.KeptDir(chosen, false); err == nil || !strings.Contains(err.Error(), "belongs to user 64999") {
		t.Errorf("the twin: %v", err)
	}
}

// Whatever a command left in the place of .git, the next start reads it without
// waiting and without end. The twin is the file of a linked worktree.
func TestStartReadsAnyGitFile(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(os.WriteFile(path("worktree"), []byte("gitdir: /srv/repo/.git/worktrees/side\n"), 0o644),
		syscall.Mkfifo(path("pipe"), 0o644), os.Symlink("/dev/zero", path("endless")), os.Mkdir(path("repository"), 0o755),
		os.WriteFile(path("large"), []byte("gitdir: /"), 0o644), os.Truncate(path("large"), 1<<40))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pipe", "endless", "repository", "large", "none"} {
		done := make(chan string, 1)
		go func() { target, _ := serve.Gitdir(path(name)); done <- target }()
		select {
		case target := <-done:
			if len(target) > 8<<10 {
				t.Errorf("%s: %d bytes were read", name, len(target))
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: still reading", name)
		}
	}
	if target, worktree := serve.Gitdir(path("worktree")); !worktree || target != "/srv/repo/.git/worktrees/side" {
		t.Errorf("twin: %q, %v", target, worktree)
	}
}

// A linked worktree whose repository commands cannot reach is said at the start;
// one whose repository lies in the workspace works, and nothing is said.
func TestLinkedWorktreeIsSaid(t *testing.T) {
	outside, workspace := t.TempDir(), t.TempDir()
	for dir, want := range map[string]bool{outside: true, filepath.Join(workspace, "repo"): false, "repo": false, "../repo": true} {
		target := filepath.Join(dir, ".git", "worktrees", "side")
		if err := os.WriteFile(filepath.Join(workspace, ".git"), []byte("gitdir: "+target+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		said := strings.Join(serve.Surprises(workspace, t.TempDir()), "\n")
		if strings.Contains(said, "linked git worktree") != want || want && !strings.Contains(said, "git clone") {
			t.Errorf("%s: %q", target, said)
		}
	}
}

// So is whatever else git needs that lies outside: a repository above, one behind a link, objects that
// a clone shares. Their twins inside work, and nothing is said.
func TestRepositoryElsewhereIsSaid(t *testing.T) {
	for name, script := range map[string]string{
		"+above":          "mkdir -p .git && touch .git/HEAD",
		"+link":           "mkdir gone && ln -s ../gone ws/.git",
		"+absolute link":  "mkdir gone && ln -s $PWD/gone ws/.git",
		"+shared":         "mkdir -p ws/.git/objects/info && echo $PWD/src/.git/objects >ws/.git/objects/info/alternates",
		"+shared, second": "mkdir -p ws/.git/objects/info && printf '../../in/.git/objects\n\n../../../src\n' >ws/.git/objects/info/alternates",
		"-own":            "mkdir -p .git ws/.git && touch .git/HEAD ws/.git/HEAD",
		"-none":           "mkdir .git",
		"-ours":           "mkdir -p .git .sallyport && touch .git/HEAD",
		"-link inside":    "mkdir ws/real && ln -s real ws/.git",
		"-shared inside":  "mkdir -p ws/.git/objects/info && echo ../../sub/.git/objects >ws/.git/objects/info/alternates",
		"-pipe":           "mkdir -p ws/.git/objects/info && mkfifo ws/.git/objects/info/alternates",
	} {
		dir := t.TempDir()
		cmd := exec.Command("sh", "-c", "mkdir ws && "+script)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v %s", name, err, out)
		}
		said := strings.Join(serve.Surprises(filepath.Join(dir, "ws"), t.TempDir()), "\n")
		if want := name[0] == '+'; strings.Contains(said, "every git command fails") != want {
			t.Errorf("%s: %q", name, said)
		}
	}
}

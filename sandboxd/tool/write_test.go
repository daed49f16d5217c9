package tool_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/sandboxd/tool"
)

func TestWriteAndAppend(t *testing.T) {
	b := newBox(t)
	var got writeResult
	b.call("write_file", args{"path": "a/b/new.txt", "content": "one\n"}, &got)
	if !got.Created || got.BytesWritten != 4 || got.Path != "a/b/new.txt" {
		t.Errorf("new: %+v", got)
	}
	b.call("write_file", args{"path": "a/b/new.txt", "content": "two\n", "append": true}, &got)
	if got.Created || got.BytesWritten != 4 || b.get("a/b/new.txt") != "one\ntwo\n" {
		t.Errorf("append: %+v %q", got, b.get("a/b/new.txt"))
	}
	b.call("write_file", args{"path": "other", "content": "x", "append": true}, &got)
	if !got.Created || b.get("other") != "x" {
		t.Errorf("append to nothing: %+v", got)
	}
	b.call("write_file", args{"path": "other", "content": ""}, &got)
	if got.Created || b.get("other") != "" {
		t.Errorf("emptied: %+v %q", got, b.get("other"))
	}
}

func TestModeIsKept(t *testing.T) {
	b := newBox(t)
	for _, mode := range []os.FileMode{0o600, 0o644, 0o664, 0o755, 0o777, os.ModeSetuid | 0o755} {
		for _, appending := range []bool{false, true} {
			b.put("f", "old")
			must(t, os.Chmod(b.path("f"), mode))
			b.call("write_file", args{"path": "f", "content": "new", "append": appending}, &writeResult{})
			info, err := os.Stat(b.path("f"))
			must(t, err)
			if info.Mode() != mode.Perm() {
				t.Errorf("mode %v became %v", mode, info.Mode())
			}
			must(t, os.Remove(b.path("f")))
		}
	}
	b.put("f", "old")
	must(t, os.Chmod(b.path("f"), 0o444))
	if words := b.refused("write_file", args{"path": "f", "content": "new"}); !strings.Contains(words, "read-only (mode 0444)") || b.get("f") != "old" {
		t.Errorf("a read-only file: %s", words)
	}
	old := unix.Umask(0o027)
	defer unix.Umask(old)
	b.call("write_file", args{"path": "new", "content": "x"}, &writeResult{})
	if info, _ := os.Stat(b.path("new")); info.Mode() != 0o640 {
		t.Errorf("a new file under umask 027 has mode %v", info.Mode())
	}
}

func TestManyWritersLeaveOneWholeVersion(t *testing.T) {
	b := newBox(t)
	version := func(i int) string { return strings.Repeat(fmt.Sprintf("writer %04d\n", i), 50) }
	whole := map[string]bool{}
	var group sync.WaitGroup
	for i := range 1000 {
		whole[version(i)] = true
		group.Go(func() {
			if res := b.raw("write_file", args{"path": "f", "content": version(i)}); res.IsError {
				t.Errorf("writer %d: %s", i, text(res))
			}
		})
	}
	for b.exists("f") == false {
		time.Sleep(time.Millisecond)
	}
	for range 200 { // also while they write
		if got := b.get("f"); !whole[got] {
			t.Fatalf("%d bytes that no writer wrote: %.40q", len(got), got)
		}
	}
	group.Wait()
	if got := b.get("f"); !whole[got] {
		t.Errorf("left behind: %.40q", got)
	}
	if got := b.temps(); got != nil {
		t.Errorf("temporary files left: %v", got)
	}
}

func (b *box) exists(name string) bool {
	_, err := os.Lstat(b.path(name))
	return err == nil
}

func TestNoAppendIsLost(t *testing.T) {
	b := newBox(t)
	var group sync.WaitGroup
	for i := range 100 {
		group.Go(func() {
			b.raw("write_file", args{"path": "log", "content": fmt.Sprintf("%03d\n", i), "append": true})
		})
	}
	group.Wait()
	got := b.get("log")
	for i := range 100 {
		if !strings.Contains(got, fmt.Sprintf("%03d\n", i)) {
			t.Errorf("line %d is lost", i)
		}
	}
	if len(got) != 400 {
		t.Errorf("%d bytes", len(got))
	}
}

// A full disk: the old file is whole afterwards. The naive way, tried beside
// it, loses it.
func TestFullDiskKeepsTheOldFile(t *testing.T) {
	b := &box{t: t, dir: smallDisk(t)}
	b.open(t.TempDir())
	old := strings.Repeat("o", 100_000)
	b.put("f", old)
	b.put("naive", "precious")
	for _, appending := range []bool{false, true} {
		words := b.refused("write_file", args{"path": "f", "content": strings.Repeat("n", 200_000), "append": appending})
		if !strings.Contains(words, "disk is full") {
			t.Errorf("append %t: %s", appending, words)
		}
		if b.get("f") != old {
			t.Fatalf("append %t: the old file is gone", appending)
		}
	}
	if got := b.temps(); got != nil {
		t.Errorf("temporary files left: %v", got)
	}
	b.call("write_file", args{"path": "g", "content": "fits"}, &writeResult{})
	if err := os.WriteFile(b.path("naive"), make([]byte, 200_000), 0o644); err == nil || b.get("naive") == "precious" {
		t.Error("writing in place kept the old file: the test shows nothing")
	}
	for _, name := range []string{"f", "g", "naive"} {
		must(t, os.Remove(b.path(name)))
	}
}

func TestStaleTempsAreSwept(t *testing.T) {
	b := newBox(t)
	stale := []string{".sandboxd-0123456789abcdef", "deep/er/.sandboxd-ffffffffffffffff"}
	kept := []string{".sandboxd-0123", ".sandboxd-0123456789abcdeX", "deep/sandboxd-0123456789abcdef"}
	for _, name := range append(stale, kept...) {
		b.put(name, "x")
	}
	busy := ".sandboxd-aaaaaaaaaaaaaaaa" // another server is writing it
	b.put(busy, "x")
	f, err := os.Open(b.path(busy))
	must(t, err)
	defer f.Close()
	must(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	must(t, os.Symlink(filepath.Join(b.outside, "secret"), b.path(".sandboxd-bbbbbbbbbbbbbbbb")))
	b.open(filepath.Join(filepath.Dir(b.dir), "private"))
	for deadline := time.Now().Add(time.Minute); b.exists(stale[0]) || b.exists(stale[1]); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("stale temporary files are still there")
		}
	}
	for _, name := range append(kept, busy) {
		if !b.exists(name) {
			t.Errorf("%s was swept", name)
		}
	}
	if _, err := os.Stat(filepath.Join(b.outside, "secret")); err != nil {
		t.Error("the sweep followed a link")
	}
}

func TestProtectedPaths(t *testing.T) {
	b := newBox(t)
	b.put(".git/config", "[core]\n")
	must(t, os.Symlink(".git", b.path("innocent")))
	must(t, os.Symlink(".git/config", b.path("file")))
	refused := []string{".git/config", ".git/hooks/pre-commit", "sub/.git/hooks/x", ".GIT/config", "innocent/config", "innocent/hooks/x",
		"file", "x/../.git/config", ".bashrc", "home/.profile", ".zshenv", ".envrc", "a/.envrc", ".mcp.json", ".vscode/tasks.json", ".config/fish/config.fish"}
	for _, path := range refused {
		if words := b.refused("write_file", args{"path": path, "content": "x"}); !strings.Contains(words, "protected by the owner's entry") {
			t.Errorf("%s: %s", path, words)
		}
	}
	if b.get(".git/config") != "[core]\n" || b.exists(".bashrc") {
		t.Error("a protected file was changed")
	}
	for _, path := range []string{".gitignore", "git/config", "config/fish", "notes.envrc", ".config/other"} {
		b.call("write_file", args{"path": path, "content": "x"}, &writeResult{})
	}
	off := newBox(t, func(c *tool.Config) { c.Protected = []string{} })
	own := newBox(t, func(c *tool.Config) { c.Protected = []string{"deploy/*.yml"} })
	for _, path := range refused[:2] {
		off.call("write_file", args{"path": path, "content": "x"}, &writeResult{})
		own.call("write_file", args{"path": path, "content": "x"}, &writeResult{})
	}
	if words := own.refused("write_file", args{"path": "a/deploy/x.yml", "content": "x"}); !strings.Contains(words, `"deploy/*.yml"`) {
		t.Errorf("own entry: %s", words)
	}
}

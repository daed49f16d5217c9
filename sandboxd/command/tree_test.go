package command_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/sandboxd/command"
)

// deep makes a chain of directories, each of which is closed to changes; the last
// holds a file, and a link to a directory outside.
func deep(t *testing.T, dir, outside string, levels int) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	for range levels {
		if err == nil {
			err = unix.Mkdirat(at, "d", 0o700)
		}
		next, openErr := unix.Openat(at, "d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		err = errors.Join(err, openErr, unix.Fchmod(at, 0o500), unix.Close(at))
		at = next
	}
	file, openErr := unix.Openat(at, "file", unix.O_CREAT|unix.O_WRONLY, 0o600)
	err = errors.Join(err, openErr, unix.Close(file), unix.Symlinkat(outside, at, "link"), unix.Close(at))
	if err != nil {
		t.Fatal(err)
	}
}

// A tree that a command made deep, or closed, is removed whole, with few descriptors,
// and nothing that a link in it leads to. The twin shows that there were more levels
// than descriptors.
func TestRemoveTree(t *testing.T) {
	dir, outside := filepath.Join(t.TempDir(), "tree"), t.TempDir()
	closed, kept := filepath.Join(dir, "closed"), filepath.Join(outside, "kept")
	err := errors.Join(os.MkdirAll(filepath.Join(closed, "a", "b"), 0o700), os.WriteFile(kept, nil, 0o400),
		os.Mkdir(filepath.Join(dir, "wide"), 0o700), os.Mkdir(filepath.Join(dir, "deep"), 0o700),
		os.Symlink(outside, filepath.Join(dir, "link")))
	for i := range 1100 {
		err = errors.Join(err, os.MkdirAll(filepath.Join(dir, "wide", fmt.Sprint(i), "x"), 0o700))
	}
	if err = errors.Join(err, os.Chmod(closed, 0o000), os.Chmod(outside, 0o500)); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(outside, 0o700) // for its own removal
	const levels = 2200
	deep(t, filepath.Join(dir, "deep"), outside, levels)
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	few := unix.Rlimit{Cur: 512, Max: was.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &was)
	if os.RemoveAll(filepath.Join(dir, "deep")) == nil {
		t.Error("the twin: os.RemoveAll did it too")
	}
	if err := command.RemoveTree(dir); err != nil {
		t.Errorf("%.300v", err)
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Error("it is still there")
	}
	info, err := os.Stat(outside)
	if _, there := os.Lstat(kept); there != nil || err != nil || info.Mode().Perm() != 0o500 {
		t.Errorf("what a link leads to: %v, %v, %v", there, info, err)
	}
	if err := command.RemoveTree(dir); err != nil {
		t.Errorf("what is gone already: %v", err)
	}
}

// most is how far the heap grows while f runs, garbage collected often.
func most(f func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	runtime.GC()
	live, done := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}, make(chan bool)
	metrics.Read(live)
	before, grown := live[0].Value.Uint64(), uint64(0)
	go func() { defer close(done); f() }()
	for {
		metrics.Read(live)
		grown = max(grown, live[0].Value.Uint64()-min(before, live[0].Value.Uint64()))
		select {
		case <-done:
			return grown
		case <-time.After(time.Millisecond):
		}
	}
}

// A directory with very many entries is measured in little memory. The twin, the same
// read at once, takes a lot.
func TestManyEntriesTakeLittleMemory(t *testing.T) {
	dir := t.TempDir()
	first := filepath.Join(dir, "0")
	if err := os.WriteFile(first, make([]byte, 8192), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 60_000 {
		if err := os.Link(first, filepath.Join(dir, fmt.Sprintf("%0100d", i+1))); err != nil {
			t.Fatal(err)
		}
	}
	var bytes int64
	pieces := most(func() { bytes = command.Size(dir) })
	whole := most(func() {
		all, err := os.ReadDir(dir)
		runtime.GC()
		if len(all) < 60_000 {
			t.Error(len(all), err)
		}
	})
	if bytes < 8192*60_000 {
		t.Errorf("%d bytes", bytes)
	}
	if t.Logf("in pieces %d KiB, at once %d KiB", pieces>>10, whole>>10); pieces > whole/4 {
		t.Error("as much as at once")
	}
}

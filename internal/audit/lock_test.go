package audit_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/internal/audit"
)

// duplicate is a further descriptor of this process's open file at path.
func duplicate(t *testing.T, path string) int {
	t.Helper()
	want, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	all, _ := filepath.Glob("/proc/self/fd/*") // the pattern is well formed
	for _, name := range all {
		if info, err := os.Stat(name); err != nil || !os.SameFile(info, want) {
			continue
		}
		fd, err := strconv.Atoi(filepath.Base(name))
		if err == nil {
			fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	t.Fatalf("%s is not open", path)
	return 0
}

// A child of the writer has its lock too, for the instant between fork and exec, also
// after the writer's end: the next one waits for it. The twin is TestSecondWriterIsRefused.
func TestLockOfAnInstantIsWaitedFor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a", "audit.jsonl")
	first := open(t, audit.Options{File: file})
	child := duplicate(t, file+".lock")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if !audit.Held(file) {
		t.Error("the lock is free: this test shows nothing")
	}
	time.AfterFunc(50*time.Millisecond, func() { unix.Close(child) })
	open(t, audit.Options{File: file}).Close()
	if audit.Held(file) {
		t.Error("held after the end")
	}
}

// Who asks whether somebody writes is not taken for the writer by another who asks.
func TestWhoAsksIsNoWriter(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a", "audit.jsonl")
	l := open(t, audit.Options{File: file})
	if !audit.Held(file) {
		t.Error("twin: the writer is not seen")
	}
	l.Close()
	lock, err := os.Open(file + ".lock")
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_SH) // as Held does for an instant
	}
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if audit.Held(file) {
		t.Error("who asks is taken for a writer")
	}
}

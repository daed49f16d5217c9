package jail_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func clearCloexec(t *testing.T, f *os.File) {
	t.Helper()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(long); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited too long")
		}
	}
}

func readPID(t *testing.T, path string) int {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return atoi(strings.TrimSpace(string(raw)))
}

// atoi is 0 for what is no number.
func atoi(s string) int { n, _ := strconv.Atoi(s); return n }

// gone fails unless the process in the file has died and been reaped.
func gone(t *testing.T, path string) {
	t.Helper()
	pid := readPID(t, path)
	waitFor(t, func() bool { return unix.Kill(pid, 0) == unix.ESRCH })
}

func kill(t *testing.T, path string) {
	t.Helper()
	if err := unix.Kill(readPID(t, path), unix.SIGKILL); err != nil {
		t.Errorf("the survivor: %v", err)
	}
	gone(t, path)
}

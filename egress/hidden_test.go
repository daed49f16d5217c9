package main_test

import (
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Where procfs hides processes from whom may not trace them, as systemd's
// ProtectProc=invisible does, sandboxd starts, holds commands and gives them their way.
// The twin is every other test.
func TestHiddenProcesses(t *testing.T) {
	world.dns.Set("a.example", "93.184.215.10")
	if !rootHere(t) {
		return
	}
	for name, uid := range accounts {
		t.Run(name, func(t *testing.T) {
			runtime.LockOSThread() // for good: the thread ends with its mounts
			if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
				t.Fatal(err)
			}
			// A procfs of its own: a remount would change the machine's.
			if err := unix.Mount("proc", "/proc", "proc", 0, "hidepid=invisible"); err != nil {
				t.Fatal(err)
			}
			s := startSandbox(t, uid, "a.example")
			c := s.connect(as("one", "a.example"))
			if r := s.run(c, "ls -d /proc/[0-9]* | wc -l; "+trust+"curl -sS https://a.example/x"); !strings.Contains(r.Stdout, "GET a.example /x") {
				t.Errorf("%+v", r)
			}
			if r := s.run(c, "cat /proc/1/environ /proc/$PPID/environ"); r.ExitCode == 0 {
				t.Errorf("another process's environment: %+v", r)
			}
		})
	}
}

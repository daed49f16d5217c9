package jail

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// stubName is what the re-executed program is called. Whoever else calls it so
// gets a process that restricts itself and becomes the program it names.
const stubName = "sallyport-jail-stub"

// The descriptors of a stub. The kernel closes them all at its exec.
const (
	statusFD = 3 + iota
	dirFD
	rulesFD
	filterFD
	stubFDs
)

// A walk through init happens on the main thread. Locking it here keeps the
// main goroutine there, so that no command is ever started from the main
// thread: its domain would be the one that /proc/PID of the server shows.
func init() { runtime.LockOSThread() }

// StubMain must be the first call of main, and of TestMain where a test starts
// commands. In a re-executed stub it enters the walls that its arguments name,
// becomes the command and does not return; elsewhere it does nothing.
func StubMain() {
	if len(os.Args) < 3 || os.Args[0] != stubName {
		return
	}
	err := stub(os.Args[1:])
	fmt.Fprint(os.NewFile(statusFD, "status"), err)
	os.Exit(126)
}

// stub takes the steps in its first argument, in order, then becomes the
// program in the rest. Restrictions are the calling thread's, which is locked.
func stub(args []string) error {
	if err := unix.CloseRange(statusFD, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close_range: %w", err)
	}
	for _, step := range strings.Fields(args[0]) {
		name, value, _ := strings.Cut(step, "=")
		if err := enter(name, value); err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
	}
	return fmt.Errorf("%s: %w", args[1], syscall.Exec(args[1], args[1:], os.Environ()))
}

func enter(name, value string) error {
	switch name {
	case "chdir":
		return unix.Fchdir(dirFD)
	case "nice":
		if now, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err != nil || 20-now >= niceness { // getpriority(2)
			return err
		}
		return unix.Setpriority(unix.PRIO_PROCESS, 0, niceness)
	case "die_with_server": // with its thread, that is, which lives as long as the command
		return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	case "no_new_privs":
		return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	case "landlock":
		return enterDomain(rulesFD, 0)
	case "seccomp":
		raw := make([]byte, 1<<15)
		n, err := unix.Pread(filterFD, raw, 0)
		return errors.Join(err, enterFilter(raw[:max(n, 0)]))
	case "limit":
		return setLimit(value)
	case "probe":
		return probe(value)
	case "trial":
		return trial()
	}
	return fmt.Errorf("unknown step")
}

// setLimit takes "resource:value". syscall.Setrlimit is the one that keeps Go
// from restoring the old descriptor limit at exec.
func setLimit(value string) error {
	var r int
	var n uint64
	if _, err := fmt.Sscanf(value, "%d:%d", &r, &n); err != nil {
		return err
	}
	return syscall.Setrlimit(r, &syscall.Rlimit{Cur: n, Max: n})
}

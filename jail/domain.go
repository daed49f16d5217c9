package jail

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The outer domain is what makes kill(-1) exact: called by the one thread of
// the server that lives in it, it reaches what that thread started, all of it,
// and nothing else. That is worth as much as the domain is in force, so the
// canary is asked first.

// deathLooks is how often, at most every 4 ms, killed processes are looked for: ten
// seconds, or more where this thread itself hardly runs, which is no reason to call
// them unkillable. Only one that hangs in the kernel, on a dead disk say, is.
const deathLooks = 2500

// enterOuter puts the calling thread, which must be locked and not the main
// one, into the outer domain.
func (j *Jail) enterOuter() error {
	if unix.Gettid() == unix.Getpid() {
		return fmt.Errorf("a command would start from the main thread")
	}
	if has(j.rules, "flag", "no_new_privs") {
		unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) // the kernel refuses the domain without it
	}
	var quiet uintptr
	if j.abi >= 7 { // every refused signal would be one line in the audit log
		quiet = unix.LANDLOCK_RESTRICT_SELF_LOG_SAME_EXEC_OFF
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, j.outer.Fd(), quiet, 0); errno != 0 {
		return fmt.Errorf("landlock_restrict_self: %w", errno)
	}
	return theCanary.beyondReach()
}

// killAll ends everything that the calling thread has started: the command's
// group, or in a full jail its domain. Without proof that the domain holds, it
// stops the server instead of killing.
func (p *Process) killAll() {
	if p.jail.cfg.Mode != Full {
		children.kill(p.pid)
		return
	}
	if err := theCanary.beyondReach(); err != nil {
		fmt.Fprintln(os.Stderr, "sandboxd: stopping without killing:", err)
		os.Exit(3)
	}
	unix.Kill(-1, unix.SIGKILL)
}

// awaitEmpty waits until nothing is left in the calling thread's domain:
// kill(pid, 0) is allowed for those inside and refused for all others. Nothing
// there can fork any more, so a list of /proc that is read now misses none.
func awaitEmpty() bool {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == unix.Getpid() {
			continue
		}
		for look := 0; unix.Kill(pid, 0) == nil; look++ {
			if look > deathLooks {
				return false
			}
			time.Sleep(min(100*time.Microsecond<<min(look, 6), 4*time.Millisecond))
		}
	}
	return true
}

// theCanary is a child outside every domain. It does nothing but live, as long
// as this process does.
var theCanary canary

type canary struct {
	mu    sync.Mutex
	pid   int
	leash *os.File
}

// start makes sure that a canary lives. It must be called from a thread that
// is in no domain.
func (c *canary) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if alive, _ := children.probe(c.pid); alive {
		return nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	c.leash = w
	c.pid, _, err = children.fork(nil, []string{"/bin/sh", "-c", "read x"}, nil, []*os.File{r, nil, nil})
	return err
}

// beyondReach is nil if the canary lives and the calling thread may not signal
// it. Both have one account, so only the domain can be the reason.
func (c *canary) beyondReach() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	alive, err := children.probe(c.pid)
	if !alive {
		return errors.New("jail: the canary is dead")
	}
	if err != unix.EPERM {
		return fmt.Errorf("jail: kill(canary, 0) from a command's domain gave %v, not EPERM", err)
	}
	return nil
}

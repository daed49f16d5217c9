package jail

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/jail/policy"
	"github.com/sallyport-dev/sallyport/jail/stub"
)

// The outer domain is what makes kill(-1) exact: called by the one thread of
// the server that lives in it, it reaches what that thread started, all of it,
// and nothing else. That is worth as much as the domain is in force, so the
// canary is asked first.

// deathPolls is how often, at most every 4 ms, a killed process is looked for
// before it is reported unkillable: at least ten seconds. Polls, not time, so
// that a starved thread does not misreport. Only a process that hangs in the
// kernel, on a dead disk say, stays that long.
const deathPolls = 2500

// enterOuter puts the calling thread, which must be locked and not the main
// one, into the outer domain.
func (j *Jail) enterOuter() error {
	if unix.Gettid() == unix.Getpid() {
		return fmt.Errorf("a command would start from the main thread")
	}
	if policy.Has[policy.NoNewPrivs](j.rules) {
		unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) // the kernel refuses the domain without it
	}
	var quiet uintptr
	if j.abi >= 7 { // every refused signal would be one line in the audit log
		quiet = unix.LANDLOCK_RESTRICT_SELF_LOG_SAME_EXEC_OFF
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, j.outer.Fd(), quiet, 0); errno != 0 {
		return fmt.Errorf("landlock_restrict_self: %w", errno)
	}
	return theCanary.outOfReach()
}

// signal sends sig to everything that the calling thread has started: the
// command's group, or in a full jail its domain. Without proof that the domain
// is in force, it stops the server instead.
func (p *Process) signal(sig syscall.Signal) {
	if p.jail.cfg.Mode != policy.Full {
		children.signal(p.pid, sig)
		return
	}
	if err := theCanary.outOfReach(); err != nil {
		fmt.Fprintln(os.Stderr, "jail: stopping without killing:", err)
		os.Exit(3)
	}
	unix.Kill(-1, sig)
}

// alive says whether anything of the command is left: its program, what was
// seen alive last, or any other process in the domain, in the order of what it
// costs to ask. Beside a chain of forks the answer may be too early a no; the
// kill that follows misses nothing.
func (p *Process) alive() bool {
	if !p.ended() {
		return true
	}
	if p.jail.cfg.Mode != policy.Full {
		return false
	}
	if p.seen != 0 && unix.Kill(p.seen, 0) == nil {
		return true
	}
	pids, err := others()
	for _, pid := range pids {
		if pid != p.warden && unix.Kill(pid, 0) == nil {
			p.seen = pid
			return true
		}
	}
	return err != nil
}

// awaitEmpty waits until nothing is left in the calling thread's domain:
// kill(pid, 0) is allowed for those inside and refused for all others. Nothing
// there can fork any more, so a list of /proc that is read now misses none.
func awaitEmpty() bool {
	pids, err := others()
	for _, pid := range pids {
		for poll := 0; unix.Kill(pid, 0) == nil; poll++ {
			if poll > deathPolls {
				return false
			}
			awaitDeath(pid, min(100*time.Microsecond<<min(poll, 6), 4*time.Millisecond))
			for children.reapNow() { // here, since on a busy machine each further thread has to wait for its turn
			}
		}
	}
	return err == nil
}

// awaitDeath waits until a process has died, for 4 ms at most; for a dead one,
// which its parent or this program has not waited for yet, or where the kernel or
// a seccomp profile has no pidfd_open(2), as long as given.
func awaitDeath(pid int, orElse time.Duration) {
	if fd, err := unix.PidfdOpen(pid, 0); err == nil {
		defer unix.Close(fd)
		if n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0); n == 0 {
			unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 4)
			return
		}
	}
	nap(orElse)
}

// nap is time.Sleep, but in the kernel: a timer of the runtime's is another
// thread's to see to.
func nap(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	unix.Nanosleep(&t, nil)
}

// others are all processes but this one.
func others() (pids []int, err error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1) // in no order, and with a fifth of the garbage
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid != unix.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// theCanary is a child outside every domain. It does nothing but live, as long
// as this process does.
var theCanary canary

type canary struct {
	mu sync.Mutex
	forked
	leash *os.File
}

// start makes sure that a canary lives, and returns its number. It must be called
// from a thread that is in no domain.
func (c *canary) start() (pid int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended() {
		return c.pid, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	c.leash = w
	argv := stub.Argv(nil, []string{"/bin/sh", "-c", "read x"})
	c.pidfd.Close()
	c.forked, err = children.fork(argv, nil, []*os.File{r, nil, nil}, true)
	return c.pid, err
}

// outOfReach is nil if the canary lives and the calling thread may not signal
// it. Both have one account, so only the domain can be the reason.
func (c *canary) outOfReach() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended() {
		return errors.New("jail: the canary is dead")
	}
	// While it lives, its number is nobody else's.
	if err := unix.Kill(c.pid, 0); err != unix.EPERM {
		return fmt.Errorf("jail: kill(canary, 0) from a command's domain gave %v, not EPERM", err)
	}
	return nil
}

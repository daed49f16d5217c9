package jail

import (
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/jail/stub"
)

// children is the one place of this process that forks and waits. A second
// waiter, such as os/exec beside it, would steal statuses from the first.
var children reaper

// reaper collects every child of this process: those that it started, and the
// orphans that the kernel hands to it as PID 1 or as a subreaper.
type reaper struct {
	mu      sync.Mutex
	once    sync.Once
	setup   error
	waiting map[int]child
}

// child is one that this process started and whose end somebody awaits.
type child struct {
	exited chan syscall.WaitStatus
	group  bool // the rest of its group ends with it
}

func (r *reaper) start() error {
	r.once.Do(func() {
		r.waiting = map[int]child{}
		r.setup = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
		died := make(chan os.Signal, 1)
		signal.Notify(died, syscall.SIGCHLD)
		go r.loop(died)
	})
	return r.setup
}

// loop also looks on its own clock: signals of the same kind are merged, and
// one that is sent while another is handled can be lost.
func (r *reaper) loop(died <-chan os.Signal) {
	tick := time.NewTicker(500 * time.Millisecond)
	for {
		select {
		case <-died:
		case <-tick.C:
		}
		for r.reap() {
		}
	}
}

// reap collects one dead child. It looks before it reaps: while the leader of
// a group is a zombie, its number cannot be given to a stranger, so that is the
// moment to kill the rest of its group. The lock is held for one child only: a
// command that forks indefinitely keeps this going for as long.
func (r *reaper) reap() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reapOne()
}

// reapNow is reap, unless somebody else holds the lock, who may be forking.
func (r *reaper) reapNow() bool {
	if !r.mu.TryLock() {
		return false
	}
	defer r.mu.Unlock()
	return r.reapOne()
}

func (r *reaper) reapOne() bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
	if err == unix.EINTR {
		return true
	}
	// si_pid lies behind three ints and their padding on 64-bit machines.
	pid := int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), 16)))
	if err != nil || pid == 0 {
		return false
	}
	c, ours := r.waiting[pid]
	if c.group {
		unix.Kill(-pid, unix.SIGKILL)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, unix.WALL, nil); err == nil && ours {
		delete(r.waiting, pid)
		c.exited <- status
	}
	return true
}

// fork starts this program again as a stub, in a session of its own, with the
// given descriptors (nil: closed). The lock is held until the child is known, so
// that no status can come before its receiver; on a busy machine that takes long,
// so whoever asks about a child does it by its pidfd. With group, what is left of
// its group when it ends is killed.
func (r *reaper) fork(argv, env []string, files []*os.File, group bool) (forked, error) {
	attr := &syscall.ProcAttr{Env: append(slices.Clip(env), stub.OneThread), Sys: &syscall.SysProcAttr{Setsid: true}}
	for _, f := range files {
		attr.Files = append(attr.Files, f.Fd()) // of nil: ^0, which closes it
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := syscall.ForkExec("/proc/self/exe", argv, attr)
	runtime.KeepAlive(files)
	if err != nil {
		return forked{}, err
	}
	exited := make(chan syscall.WaitStatus, 1)
	r.waiting[pid] = child{exited, group}
	c := forked{pid: pid, exited: exited}
	if fd, err := unix.PidfdOpen(pid, 0); err == nil { // not reaped yet, so it is this process
		c.pidfd = os.NewFile(uintptr(fd), "pidfd")
	}
	return c, nil
}

// forked is a child.
type forked struct {
	pid    int
	pidfd  *os.File // nil where a seccomp profile refuses pidfd_open(2)
	exited <-chan syscall.WaitStatus
}

// ended says whether it has died, reaped or not.
func (c forked) ended() bool {
	if c.pidfd == nil {
		return children.ended(c.pid)
	}
	n, _ := unix.Poll([]unix.PollFd{{Fd: int32(c.pidfd.Fd()), Events: unix.POLLIN}}, 0)
	return n > 0
}

// signal sends sig to the group of a child, unless it has been reaped: after
// that the number may belong to somebody else.
func (r *reaper) signal(pid int, sig syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.waiting[pid]; ok {
		unix.Kill(-pid, sig)
	}
}

// ended says whether a child has died, reaped or not.
func (r *reaper) ended(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.waiting[pid]; !ok {
		return true
	}
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
	return err == nil && info.Signo != 0
}

package jail

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// The kernel counts an account's epoll watches, those of commands too (epoll(7),
// max_user_watches). Where they are used up this server can serve no new
// connection and read no new command's output. So it keeps some in reserve, and
// where none can be had any more the newest commands end, one by one.

// The reserve is reserveSets sets of reserveWatches watches: a watch is a pair of
// an epoll instance and a descriptor.
const (
	reserveSets    = 24
	reserveWatches = 24
)

// theReserve is shared by all jails of this process.
var theReserve reserve

type reserve struct {
	mu    sync.Mutex
	files []int // what is watched
	sets  []int // epoll instances
}

// fill takes what is missing of the reserve. The error is the kernel's: ENOSPC
// where no watch is left.
func (r *reserve) fill() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.files) < reserveWatches {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		if err != nil {
			return err
		}
		r.files = append(r.files, fd)
	}
	for len(r.sets) < reserveSets {
		set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return err
		}
		for _, fd := range r.files {
			if err := unix.EpollCtl(set, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{}); err != nil {
				unix.Close(set)
				return err
			}
		}
		r.sets = append(r.sets, set)
	}
	return nil
}

// release gives the watches of the reserve back to the account.
func (r *reserve) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, set := range r.sets {
		unix.Close(set)
	}
	r.sets = nil
}

// guard looks whether a watch can still be had, by trying. Where none can, the
// newest command ends now, and this server may use the reserve meanwhile.
func (r *reserve) guard(try func() error, newest func() *Process) {
	if !errors.Is(try(), unix.ENOSPC) {
		r.fill()
		return
	}
	if p := newest(); p != nil {
		p.starved.Store(true)
		p.Kill()
	}
	r.release()
}

// oneWatch takes a watch and gives it back.
func oneWatch() error {
	set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(set)
	return unix.EpollCtl(set, unix.EPOLL_CTL_ADD, theReserve.anyFile(), &unix.EpollEvent{})
}

func (r *reserve) anyFile() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.files) == 0 {
		return -1
	}
	return r.files[0]
}

// newest is the running command that started last; nil if none runs.
func newest() (last *Process) {
	running.mu.Lock()
	defer running.mu.Unlock()
	for p := range running.all {
		if p.killed.Err() == nil && (last == nil || p.begun.After(last.begun)) {
			last = p
		}
	}
	return last
}

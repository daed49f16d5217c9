package stub

import (
	"errors"
	"syscall"
	"unsafe"
)

// Warden is the step that leaves a warden behind: a process in the outer domain,
// as the stub is until then, that ends everything in it as soon as the server is
// gone. No command can reach it: a command's own domain lies inside. It tells its
// number on LeashFD, whose other end only the server holds.
const Warden = "warden"

// leaveWarden forks the warden. It is the server's child, not the command's, whose
// program might wait for all of its own.
//
//go:norace
func leaveWarden() error {
	if err := syscall.Kill(syscall.Getppid(), 0); err != syscall.EPERM {
		return errors.New("the server can be signalled: the outer domain is not in force")
	}
	all, was := ^uint64(0), uint64(0)
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, sigBlock, uintptr(unsafe.Pointer(&all)),
		uintptr(unsafe.Pointer(&was)), unsafe.Sizeof(all), 0, 0)
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, syscall.CLONE_PARENT|uintptr(syscall.SIGCHLD), 0, 0, 0, 0,
		0)
	if pid == 0 && errno == 0 {
		watch()
	}
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, sigSet, uintptr(unsafe.Pointer(&was)), 0, unsafe.Sizeof(was), 0, 0)
	if errno != 0 {
		return errno
	}
	number := [4]byte{byte(pid), byte(pid >> 8), byte(pid >> 16), byte(pid >> 24)}
	_, err := syscall.Write(LeashFD, number[:])
	return err
}

// PID is what the warden said on LeashFD.
func PID(said [4]byte) int {
	return int(said[0]) | int(said[1])<<8 | int(said[2])<<16 | int(said[3])<<24
}

// The first argument of rt_sigprocmask(2), and close_range(2), which package
// syscall does not have.
const (
	sigBlock      = 0
	sigSet        = 2
	sysCloseRange = 436
)

// watch waits for the end of the leash with every signal blocked, and kills. It
// runs no Go code but calls, so it needs none of the runtime's threads, which a
// forked process does not have.
//
//go:norace
//go:nosplit
func watch() {
	name := [16]byte{'j', 'a', 'i', 'l', '-', 'w', 'a', 'r', 'd', 'e', 'n'}
	syscall.RawSyscall6(sysCloseRange, 0, LeashFD-1, 0, 0, 0, 0) // it holds no output of the command's
	syscall.RawSyscall6(sysCloseRange, LeashFD+1, 1<<32-1, 0, 0, 0, 0)
	syscall.RawSyscall6(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, 0, 0, 0, 0, 0) // its end comes by the leash
	syscall.RawSyscall6(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 0, 0, 0, 0, 0)  // closes its part of /proc
	syscall.RawSyscall6(syscall.SYS_PRCTL, syscall.PR_SET_NAME, uintptr(unsafe.Pointer(&name)), 0, 0, 0, 0)
	for {
		var b byte
		n, _, errno := syscall.RawSyscall6(syscall.SYS_READ, LeashFD, uintptr(unsafe.Pointer(&b)), 1, 0, 0, 0)
		if errno != syscall.EINTR && int(n) <= 0 {
			break
		}
	}
	const everything = ^uintptr(0)
	syscall.RawSyscall6(syscall.SYS_KILL, everything, uintptr(syscall.SIGKILL), 0, 0, 0, 0)
	for {
		syscall.RawSyscall6(syscall.SYS_EXIT_GROUP, 0, 0, 0, 0, 0, 0)
	}
}

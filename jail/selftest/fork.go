package selftest

import "golang.org/x/sys/unix"

// ForkOnce makes a child that ends at once. It runs no Go code but one call,
// so it needs none of the runtime's threads, which it does not have. The error
// is the kernel's, EAGAIN at the limit on processes.
//
//go:norace
func ForkOnce() error {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		for {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	_, err := unix.Wait4(int(pid), nil, 0, nil)
	return err
}

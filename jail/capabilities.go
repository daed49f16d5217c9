package jail

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setCapabilities leaves the calling thread, or all threads, with no
// capabilities but these, which it must have.
func setCapabilities(all bool, caps ...uintptr) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	for _, c := range caps {
		data[c/32].Effective |= 1 << (c % 32)
		data[c/32].Permitted |= 1 << (c % 32)
	}
	var errno syscall.Errno
	if all {
		_, _, errno = syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)),
			uintptr(unsafe.Pointer(&data[0])), 0)
	} else {
		_, _, errno = unix.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)),
			uintptr(unsafe.Pointer(&data[0])), 0)
	}
	if errno != 0 {
		return fmt.Errorf("capset: %w", errno)
	}
	return nil
}

// capabilities are those that the calling thread has or could take.
func capabilities() (bits uint64, err error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return 0, fmt.Errorf("capget: %w", err)
	}
	for i, c := range caps {
		bits |= uint64(c.Effective|c.Permitted) << (32 * i)
	}
	return bits, nil
}

// bitsOf are capabilities as a set.
func bitsOf(caps []uintptr) (bits uint64) {
	for _, c := range caps {
		bits |= 1 << c
	}
	return bits
}

// noCapabilities takes from the calling thread, and so from what it starts,
// what it kept in its user namespace.
func noCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("ambient capabilities: %w", err)
	}
	return setCapabilities(false)
}

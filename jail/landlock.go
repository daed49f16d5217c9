package jail

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// abi is the kernel's Landlock version; 0 with the reason where there is none.
func abi() (int, error) {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, errno
	}
	return int(v), nil
}

// sum adds the bits of all rules of a kind.
func sum(rules []rule, kind string) (bits uint64) {
	for _, r := range rules {
		if r.kind == kind {
			bits |= r.bits
		}
	}
	return bits
}

// ruleset makes a domain ready to enter (landlock_create_ruleset(2)).
func ruleset(attr unix.LandlockRulesetAttr) (*os.File, error) {
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return nil, fmt.Errorf("landlock_create_ruleset: %w", errno)
	}
	return os.NewFile(fd, "ruleset"), nil
}

// domains makes the two domains of a policy. A path that does not exist is
// left out: it grants nothing. What must be writable must be there.
func domains(rules []rule) (outer, inner *os.File, err error) {
	// A domain that says nothing about moving files between directories forbids
	// it to the domains beneath. So the outer one takes that right and gives it
	// back everywhere.
	const move = unix.LANDLOCK_ACCESS_FS_REFER
	if outer, err = ruleset(unix.LandlockRulesetAttr{Handled_access_fs: move, Scoped: sum(rules, "outer")}); err != nil {
		return nil, nil, err
	}
	if err := allow(outer, rule{name: "/", bits: move}, move); err != nil {
		return nil, nil, err
	}
	inner, err = ruleset(unix.LandlockRulesetAttr{
		Handled_access_fs:  sum(rules, "handle"),
		Handled_access_net: sum(rules, "tcp"),
		Scoped:             sum(rules, "scope"),
	})
	if err != nil {
		return nil, nil, err
	}
	for _, r := range rules {
		switch r.kind {
		case "read", "write", "device":
			if err := allow(inner, r, sum(rules, "handle")); err != nil {
				return nil, nil, fmt.Errorf("landlock %s: %w", r, err)
			}
		}
	}
	return outer, inner, nil
}

func allow(rules *os.File, r rule, handled uint64) error {
	fd, err := unix.Open(r.name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT && (r.kind == "read" || r.kind == "device") {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	access := r.bits & handled
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= fsOnFile
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, rules.Fd(), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// filterFile holds a filter where a stub can read it.
func filterFile(prog []unix.SockFilter) (*os.File, error) {
	fd, err := unix.MemfdCreate("filter", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "filter")
	_, err = f.Write(unsafe.Slice((*byte)(unsafe.Pointer(&prog[0])), len(prog)*8))
	return f, err
}

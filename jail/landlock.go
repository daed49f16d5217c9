package jail

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/jail/policy"
)

// minABI is the Landlock version of Linux 6.12, the first that can keep
// signals inside a domain.
const minABI = 6

// landlockABI is the kernel's Landlock version; 0 with the reason where there is none.
func landlockABI() (int, error) {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, errno
	}
	return int(v), nil
}

// ruleset makes a domain ready to enter (landlock_create_ruleset(2)).
func ruleset(attr unix.LandlockRulesetAttr) (*os.File, error) {
	size := unsafe.Sizeof(attr)
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return nil, fmt.Errorf("landlock_create_ruleset: %w", errno)
	}
	return os.NewFile(fd, "ruleset"), nil
}

// outerDomain is the domain of a command's thread in this process. A domain
// that says nothing about moving files between directories forbids it to the
// domains inside it, so it takes that right and gives it back everywhere.
func outerDomain(rules policy.Rules) (*os.File, error) {
	const move = unix.LANDLOCK_ACCESS_FS_REFER
	attr := unix.LandlockRulesetAttr{Handled_access_fs: move}
	for _, r := range policy.All[policy.Outer](rules) {
		attr.Scoped |= r.Bits
	}
	outer, err := ruleset(attr)
	if err != nil {
		return nil, err
	}
	return outer, allow(outer, policy.Grant{Access: policy.Write, Path: "/", Rights: move}, move)
}

// innerDomain is the command's own domain. A path that does not exist is left
// out: it grants nothing. What must be writable must be there.
func innerDomain(rules policy.Rules) (*os.File, error) {
	var attr unix.LandlockRulesetAttr
	for _, r := range rules {
		switch r := r.(type) {
		case policy.Handle:
			attr.Handled_access_fs |= r.Bits
		case policy.Port:
			attr.Handled_access_net |= r.Bits
		case policy.Scope:
			attr.Scoped |= r.Bits
		}
	}
	inner, err := ruleset(attr)
	if err != nil {
		return nil, err
	}
	for _, g := range policy.All[policy.Grant](rules) {
		if err := allow(inner, g, attr.Handled_access_fs); err != nil {
			inner.Close()
			return nil, fmt.Errorf("landlock %s: %w", g, err)
		}
	}
	return inner, nil
}

// allow gives back what a grant says of the rights that the domain handles.
func allow(rules *os.File, g policy.Grant, handled uint64) error {
	fd, err := unix.Open(g.Path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT && g.Access != policy.Write {
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
	access := g.Rights & handled
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= policy.OnFile
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, rules.Fd(), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

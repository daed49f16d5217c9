package selftest

import (
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/jail/policy"
)

// TryCalls is the stage Calls: what the filter refuses, and the limits.
func TryCalls() error {
	at, err := here()
	if err == nil {
		report(Calls, slices.Concat(at.calls(), at.network(), at.limits()))
	}
	return err
}

// Refused says whether a rule's call is refused here by something other than
// the jail: the kernel does not have it, or a container engine's own filter
// stands before ours. It makes the call, harmlessly.
func Refused(cfg policy.Config, r policy.Rule, somebody int) bool {
	for _, a := range (Place{Config: cfg, Canary: somebody}).calls() {
		if a.rule == r.String() && a.try() != a.want {
			return false
		}
	}
	return true
}

// calls make each refused call. The arguments are such that one which gets
// through does no harm: mostly all ones, which no call takes.
func (at Place) calls() (as []attempt) {
	rules := at.Config.Rules()
	for _, r := range rules {
		switch r := r.(type) {
		case policy.Refuse:
			nr, _ := policy.Number(r.Call, runtime.GOARCH)
			as = append(as, attempt{r.String(), call(nr, invalid()), unix.ENOSYS})
		case policy.RefuseIf:
			nr, ok := policy.Number(r.Call, runtime.GOARCH)
			for _, v := range at.refusedValues(r) {
				if ok {
					as = append(as, attempt{r.String(), call(nr, onlyRefusedBy(rules, r, v)), unix.EPERM})
				}
			}
		}
	}
	return append(as, attempt{"new system calls", call(policy.UnknownCall, invalid()), unix.ENOSYS})
}

// onlyRefusedBy are arguments that no other rule refuses.
func onlyRefusedBy(rules policy.Rules, r policy.RefuseIf, value uint32) [6]uintptr {
	args := invalid()
	for _, other := range policy.All[policy.RefuseIf](rules) {
		switch {
		case other.Call != r.Call:
		case other.Op == policy.NotIn && len(other.Values) > 0:
			args[other.Arg] = uintptr(other.Values[0])
		case other.Op == policy.AnyBit:
			args[other.Arg] = 0
		}
	}
	args[r.Arg] = uintptr(value)
	for _, m := range r.If {
		if m.Arg == r.Arg {
			args[m.Arg] |= uintptr(m.Values[0])
		} else {
			args[m.Arg] = uintptr(m.Values[0])
		}
	}
	return args
}

// refusedValues are values of a rule's argument that it refuses.
func (at Place) refusedValues(r policy.RefuseIf) []uint32 {
	switch {
	case r.Op == policy.In:
		return r.Values
	case r.Op == policy.AnyBit && r.Call == "socketpair":
		return []uint32{unix.SOCK_DGRAM, unix.SOCK_RAW}
	case r.Op == policy.AnyBit && r.Call == "clone": // with CLONE_FS a new user namespace is invalid in itself
		return []uint32{unix.CLONE_NEWUSER | unix.CLONE_FS}
	case r.Op == policy.AnyBit:
		return r.Values
	case len(r.If) > 0: // a protocol of netlink's
		return []uint32{unix.NETLINK_KOBJECT_UEVENT}
	case r.Arg == 0 && (r.Call == "socket" || r.Call == "socketpair"):
		families := []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK, unix.AF_PACKET, unix.AF_VSOCK,
			unix.AF_ALG}
		return slices.DeleteFunc(families, func(f uint32) bool { return slices.Contains(r.Values, f) })
	}
	return []uint32{uint32(at.Canary)}
}

func invalid() (args [6]uintptr) {
	for i := range args {
		args[i] = ^uintptr(0)
	}
	return args
}

func call(nr uint32, a [6]uintptr) func() error {
	return func() error {
		_, _, errno := unix.Syscall6(uintptr(nr), a[0], a[1], a[2], a[3], a[4], a[5])
		if errno == 0 {
			return nil
		}
		return errno
	}
}

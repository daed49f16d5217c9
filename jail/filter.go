package jail

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/jail/policy"
)

// Offsets in struct seccomp_data (linux/seccomp.h), little endian.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

const (
	bpfLoad  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	bpfEqual = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	bpfAtMin = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	bpfBits  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	bpfRet   = unix.BPF_RET | unix.BPF_K
)

func op(code uint16, k uint32, jt, jf int) unix.SockFilter {
	return unix.SockFilter{Code: code, K: k, Jt: uint8(jt), Jf: uint8(jf)}
}

func refuse(errno uint32) unix.SockFilter { return op(bpfRet, unix.SECCOMP_RET_ERRNO|errno, 0, 0) }

// assemble writes the filter for an architecture. Another one's calls have
// other numbers, so whoever makes one is killed.
func assemble(rules policy.Rules, arch string) []unix.SockFilter {
	audit := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[arch]
	prog := []unix.SockFilter{
		op(bpfLoad, offArch, 0, 0), op(bpfEqual, audit, 1, 0), op(bpfRet, unix.SECCOMP_RET_KILL_PROCESS, 0, 0),
		// Above it lie the x32 calls, which also carry amd64's architecture.
		op(bpfLoad, offNumber, 0, 0), op(bpfAtMin, policy.UnknownCall, 0, 1), refuse(uint32(unix.ENOSYS)),
	}
	for _, r := range rules {
		name, test := testOf(r)
		nr, ok := policy.Number(name, arch)
		if test == nil || !ok {
			continue
		}
		prog = append(prog, op(bpfLoad, offNumber, 0, 0), op(bpfEqual, nr, 0, len(test)))
		prog = append(prog, test...)
	}
	return append(prog, op(bpfRet, unix.SECCOMP_RET_ALLOW, 0, 0))
}

// testOf is what follows once a call's number fits: it refuses or falls off its
// end. It is nil for rules that are not about calls.
func testOf(r policy.Rule) (call string, test []unix.SockFilter) {
	switch r := r.(type) {
	case policy.Refuse:
		return r.Call, []unix.SockFilter{refuse(uint32(unix.ENOSYS))}
	case policy.RefuseIf:
		test = append(matchCode(r.Match, 1), refuse(uint32(unix.EPERM)))
		for _, m := range r.If {
			test = append(matchCode(m, len(test)), test...)
		}
		return r.Call, test
	}
	return "", nil
}

// matchCode falls off its end where an argument matches, and else jumps over
// the skip instructions behind it. Kernel arguments of these kinds are 32 bits
// wide, so the low half is the whole argument.
func matchCode(m policy.Match, skip int) []unix.SockFilter {
	code := []unix.SockFilter{op(bpfLoad, uint32(offArgs+8*m.Arg), 0, 0)}
	if m.Op == policy.AnyBit {
		return append(code, op(bpfBits, m.Mask(), 0, skip))
	}
	for i, v := range m.Values {
		left := len(m.Values) - 1 - i
		switch {
		case m.Op == policy.NotIn:
			code = append(code, op(bpfEqual, v, left+skip, 0))
		case left > 0:
			code = append(code, op(bpfEqual, v, left, 0))
		default:
			code = append(code, op(bpfEqual, v, 0, skip))
		}
	}
	return code
}

// filterFile holds a filter where a stub can read it, and nobody can write it.
func filterFile(prog []unix.SockFilter) (*os.File, error) {
	fd, err := unix.MemfdCreate("filter", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "filter")
	if _, err := f.Write(unsafe.Slice((*byte)(unsafe.Pointer(&prog[0])), len(prog)*8)); err != nil {
		return f, err
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return f, fmt.Errorf("sealing the filter: %w", err)
	}
	return f, nil
}

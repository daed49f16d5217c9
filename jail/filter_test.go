package jail_test

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/jail"
	"github.com/sallyport-dev/sallyport/jail/policy"
)

// evaluate runs a filter as the kernel does (linux/seccomp.h, struct
// seccomp_data; bpf(4)), with the instructions that ours are made of.
func evaluate(t *testing.T, prog []unix.SockFilter, arch, nr uint32, args [6]uint64) uint32 {
	t.Helper()
	load := func(off uint32) uint32 {
		switch {
		case off == 0:
			return nr
		case off == 4:
			return arch
		case off >= 16 && off < 64 && off%8 == 0:
			return uint32(args[(off-16)/8])
		}
		t.Fatalf("load of offset %d", off)
		return 0
	}
	var a uint32
	for pc := 0; pc < len(prog); pc++ {
		i := prog[pc]
		jump := func(yes bool) {
			if yes {
				pc += int(i.Jt)
			} else {
				pc += int(i.Jf)
			}
		}
		switch i.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = load(i.K)
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			jump(a == i.K)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			jump(a >= i.K)
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			jump(a&i.K != 0)
		case unix.BPF_RET | unix.BPF_K:
			return i.K
		default:
			t.Fatalf("instruction %#x", i.Code)
		}
	}
	t.Fatal("the filter has no end")
	return 0
}

const (
	allowed = unix.SECCOMP_RET_ALLOW
	killed  = unix.SECCOMP_RET_KILL_PROCESS
)

var audit = map[string]uint32{"amd64": 0xc000003e, "arm64": 0xc00000b7}

// tables reads the system calls of an architecture from x/sys.
func table(t *testing.T, arch string) map[string]uint32 {
	t.Helper()
	raw, err := os.ReadFile("../vendor/golang.org/x/sys/unix/zsysnum_linux_" + arch + ".go")
	if err != nil && contained {
		t.Skip("not by itself: the sources are not in the container: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]uint32{}
	for _, m := range regexp.MustCompile(`SYS_(\w+)\s*=\s*(\d+)`).FindAllStringSubmatch(string(raw), -1) {
		n, _ := strconv.Atoi(m[2])
		calls[strings.ToLower(m[1])] = uint32(n)
	}
	if len(calls) < 300 {
		t.Fatalf("%s: %d calls", arch, len(calls))
	}
	return calls
}

// Every system call of both architectures gets the verdict that the policy's
// own lines say: the lines are read here as text, by name.
func TestFilterSaysWhatThePolicySays(t *testing.T) {
	for arch := range audit {
		for _, cfg := range configs(t) {
			prog := jail.Filter(cfg, arch)
			refused, conditional := lines(t, cfg)
			for name, nr := range table(t, arch) {
				for _, args := range arguments(len(conditional[name]) > 0) {
					want := uint32(allowed)
					if slices.ContainsFunc(conditional[name], func(matches func([6]uint64) bool) bool { return matches(args) }) {
						want = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
					}
					if refused[name] {
						want = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
					}
					if got := evaluate(t, prog, audit[arch], nr, args); got != want {
						t.Errorf("%s %s(%#x): %#x, want %#x", arch, name, args, got, want)
					}
				}
			}
		}
	}
}

// arguments are values on both sides of every rule's border, one at a time or in
// pairs.
func arguments(pairs bool) (all [][6]uint64) {
	values := []uint64{0, 1, 2, 3, 10, 16, 17, 38, 0o4755, 0o2755, 0o2644, 0o755, 0o100, 0x410000, 0x5412, 0x5423, 0xc0506617, 0x10000000, 0x20000, 1 << 32}
	for i := range 4 {
		for _, v := range values {
			var args [6]uint64
			args[i] = v
			all = append(all, args)
			for j := range i {
				for k := 0; pairs && k < len(values); k++ {
					args[j] = values[k]
					all = append(all, args)
				}
				args[j] = 0
			}
		}
	}
	return all
}

// lines reads the policy's text.
func lines(t *testing.T, cfg jail.Config) (refused map[string]bool, conditional map[string][]func([6]uint64) bool) {
	t.Helper()
	refused, conditional = map[string]bool{}, map[string][]func([6]uint64) bool{}
	pattern := regexp.MustCompile(`^call (\w+) EPERM if (.*)$`)
	for _, line := range jail.Rules(cfg) {
		if name, ok := strings.CutSuffix(strings.TrimPrefix(line, "call "), " ENOSYS"); ok {
			refused[name] = true
		}
		m := pattern.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		var all []func([6]uint64) bool
		for part := range strings.SplitSeq(m[2], " and ") {
			all = append(all, match(t, part))
		}
		conditional[m[1]] = append(conditional[m[1]], func(args [6]uint64) bool {
			return !slices.ContainsFunc(all, func(holds func([6]uint64) bool) bool { return !holds(args) })
		})
	}
	if len(refused) < 50 || len(conditional) < 10 {
		t.Fatalf("%d and %d rules read", len(refused), len(conditional))
	}
	return refused, conditional
}

// match reads one comparison of the policy's text.
func match(t *testing.T, part string) func([6]uint64) bool {
	t.Helper()
	m := regexp.MustCompile(`^argument (\d) (&|in|not in) \{(.*)\}$`).FindStringSubmatch(part)
	if m == nil {
		t.Fatalf("%q is no comparison", part)
	}
	arg, _ := strconv.Atoi(m[1])
	var vals []uint32
	for _, v := range strings.Fields(m[3]) {
		n, err := strconv.ParseUint(v, 0, 32)
		if err != nil {
			t.Fatal(part, err)
		}
		vals = append(vals, uint32(n))
	}
	return func(args [6]uint64) bool {
		in := false
		for _, v := range vals {
			in = in || uint32(args[arg]) == v && m[2] != "&" || m[2] == "&" && uint32(args[arg])&v != 0
		}
		return in != (m[2] == "not in")
	}
}

// Another architecture's calls carry other numbers; x32 calls carry this
// one's architecture and a bit in the number.
func TestFilterOfForeignCalls(t *testing.T) {
	for arch, native := range audit {
		prog := jail.Filter(jail.Config{Mode: jail.Full}, arch)
		for _, foreign := range []uint32{0, 0x40000003, 0x40000028, 0xc000003e, 0xc00000b7, 0xc00000f3} {
			if foreign == native {
				continue
			}
			for _, nr := range []uint32{0, 41, 359, 11} {
				if got := evaluate(t, prog, foreign, nr, [6]uint64{}); got != killed {
					t.Errorf("%s: call %d of architecture %#x: %#x", arch, nr, foreign, got)
				}
			}
		}
		for _, nr := range []uint32{472, 1000, 0x40000000 | 41, 0x40000000 | 520, 0x7fffffff, 0x80000000, 0xffffffff} {
			if got := evaluate(t, prog, native, nr, [6]uint64{}); got != unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS) {
				t.Errorf("%s: call %#x: %#x", arch, nr, got)
			}
		}
	}
}

// The numbers in the policy are those of x/sys, and a call that is missing on
// one architecture does not exist there.
func TestCallNumbers(t *testing.T) {
	for arch := range audit {
		calls := table(t, arch)
		for _, name := range policy.Calls() {
			nr, known := policy.Number(name, arch)
			if want, ok := calls[name]; ok != known || ok && want != nr {
				t.Errorf("%s %s: %d, x/sys has %d", arch, name, nr, want)
			}
		}
		for name, nr := range calls {
			if nr >= policy.UnknownCall {
				t.Errorf("%s: the policy has not seen %s (%d)", arch, name, nr)
			}
		}
	}
}

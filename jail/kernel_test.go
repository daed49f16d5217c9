package jail_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// option is a kernel setting that refuses attacks without any jail.
type option struct {
	path    string // below /proc/sys
	refuses func(value int) bool
	attacks []string
}

// options are the settings that distributions change. Attaching is what Yama
// restricts: to read another process's environment stays allowed.
var options = []option{
	{"kernel/yama/ptrace_scope", func(v int) bool { return v > 0 },
		[]string{"memory", "thread's memory", "ptrace", "ptrace a thread", "process_vm_readv", "pidfd_getfd"}},
	{"kernel/perf_event_paranoid", func(v int) bool { return v > 2 }, []string{"perf events"}},
	{"kernel/io_uring_disabled", func(v int) bool { return v > 0 }, []string{"io_uring"}},
	{"kernel/unprivileged_userns_clone", func(v int) bool { return v == 0 }, []string{"user namespace"}},
	{"net/mptcp/enabled", func(v int) bool { return v == 0 }, []string{"mptcp connect", "mptcp bind"}},
	{"net/ipv4/tcp_fastopen", func(v int) bool { return v&1 == 0 }, []string{"tcp fast open"}},
}

// notBuilt are the answers of a kernel without the feature. A jail that is only
// a process group has no filter, so there they can only be the kernel's.
var notBuilt = []error{unix.ENOSYS, unix.EPROTONOSUPPORT, unix.EAFNOSUPPORT, unix.ENOPROTOOPT, unix.EOPNOTSUPP}

// refusedHere says why this kernel refuses an attack that met no restriction of
// ours; empty where nothing is known that would. The proof of the jail's own
// rule is then the evaluated filter (TestFilterSaysWhatThePolicySays) alone.
func refusedHere(t *testing.T, attack, verdict string) string {
	t.Helper()
	for _, err := range notBuilt {
		if strings.HasSuffix(strings.TrimSpace(verdict), err.Error()) {
			return "this kernel was built without it"
		}
	}
	for _, o := range options {
		raw, err := os.ReadFile("/proc/sys/" + o.path)
		if err == nil && slices.Contains(o.attacks, attack) && o.refuses(atoi(strings.TrimSpace(string(raw)))) {
			return o.path + " is " + strings.TrimSpace(string(raw))
		}
	}
	return ""
}

// A kernel option explains what it refuses and nothing else: a jail's own
// refusals must not pass as the kernel's.
func TestKernelOptionsExplainOnlyTheirOwn(t *testing.T) {
	for _, o := range options {
		for _, name := range o.attacks {
			if attacks[name] == nil {
				t.Errorf("%s: there is no attack %q", o.path, name)
			}
		}
	}
	for _, errno := range []error{unix.EPERM, unix.EACCES, errors.New("no secret there")} {
		if why := refusedHere(t, "environ", "environ: "+errno.Error()); why != "" {
			t.Errorf("%v: %s", errno, why)
		}
	}
	if why := refusedHere(t, "io_uring", "io_uring: "+unix.ENOSYS.Error()); why == "" {
		t.Error("ENOSYS without a filter is not understood as the kernel's")
	}
}

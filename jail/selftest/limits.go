package selftest

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/jail/policy"
)

// limits look at this process as it now is.
func (at Place) limits() (as []attempt) {
	check := func(r fmt.Stringer, err error, good bool, got any) {
		if err == nil && !good {
			err = fmt.Errorf("%v", got)
		}
		as = append(as, attempt{r.String(), func() error { return err }, nil})
	}
	limit := func(r fmt.Stringer, resource int, value uint64) {
		var l syscall.Rlimit
		err := syscall.Getrlimit(resource, &l)
		check(r, err, l.Max <= value, l.Max)
	}
	for _, r := range at.Config.Rules() {
		switch r := r.(type) {
		case policy.NoNewPrivs:
			flag, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
			check(r, err, flag == 1, flag)
		case policy.Nice:
			nice, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
			check(r, err, 20-nice >= r.Value, nice) // the call gives 20 - nice (getpriority(2))
		case policy.OOMScore:
			score, err := os.ReadFile("/proc/self/oom_score_adj")
			check(r, err, strings.TrimSpace(string(score)) == fmt.Sprint(r.Value), string(score))
		case policy.Limit:
			limit(r, r.Resource, r.Value)
		case policy.Budget:
			limit(r, unix.RLIMIT_NPROC, at.Budget)
		}
	}
	as = append(as, attempt{"no capability", noCapability, nil})
	return append(as, attempt{"fork beyond the limit", func() error {
		if err := syscall.Setrlimit(unix.RLIMIT_NPROC, &syscall.Rlimit{Cur: 1, Max: 1}); err != nil {
			return err
		}
		return ForkOnce()
	}, unix.EAGAIN})
}

// noCapability is an error if this process has one, of whatever namespace.
func noCapability() error {
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(raw)) {
		name, bits, _ := strings.Cut(strings.TrimSpace(line), ":")
		if strings.HasPrefix(name, "Cap") && name != "CapBnd" && strings.Trim(bits, "0 \t") != "" {
			return fmt.Errorf("%s is %s", name, strings.TrimSpace(bits))
		}
	}
	return nil
}

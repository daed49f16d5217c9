package jail

import (
	"math"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/jail/policy"
	"github.com/sallyport-dev/sallyport/jail/stub"
)

// Names of steps that the self-test has to find.
const (
	stepLandlock = "landlock"
	stepStart    = "close_range"
)

// launch is how a command starts. The limit on processes comes last: the stub
// may still need a thread before.
func (j *Jail) launch(c Command) (launch, error) {
	steps := []stub.Step{call(stepStart, unix.SYS_CLOSE_RANGE, stub.StatusFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC),
		// With its thread, that is, which lives as long as the command.
		call("die_with_server", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uint64(unix.SIGKILL))}
	if j.hasWarden() {
		steps = append(steps, stub.Step{Name: stub.Warden})
	}
	if c.Dir != nil {
		steps = append(steps, call("chdir", unix.SYS_FCHDIR, stub.DirFD))
	}
	var late []stub.Step
	for _, r := range j.rules {
		switch r := r.(type) {
		case policy.Limit:
			steps = append(steps, limit(r.Resource, r.Value))
		case policy.OOMScore:
			steps = append(steps, stub.Step{Name: stub.OOMScore, Args: [3]uint64{uint64(r.Value)}})
		case policy.NoNewPrivs:
			steps = append(steps, call("no_new_privs", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1))
		case policy.Nice:
			now, _ := unix.Getpriority(unix.PRIO_PROCESS, 0) // gives 20 - nice (getpriority(2))
			if 20-now < r.Value {                            // late, so that the stub itself is quick
				late = append(late, call("nice", unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, uint64(r.Value)))
			}
		case policy.Budget:
			n, err := theBudget.limit(j)
			if err != nil {
				return launch{}, err
			}
			late = append(late, limit(unix.RLIMIT_NPROC, n))
		}
	}
	if j.cfg.Mode == policy.Full {
		steps = append(steps, call(stepLandlock, unix.SYS_LANDLOCK_RESTRICT_SELF, stub.RulesFD),
			call(stub.Filter, unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER))
	}
	inner, own, err := j.innerFor(c)
	return launch{append(steps, late...), c.Env, inner, own}, err
}

// innerFor is the domain of a command: the jail's, or one of its own that allows
// what is private to the command too.
func (j *Jail) innerFor(c Command) (inner *os.File, own bool, err error) {
	if j.cfg.Mode != policy.Full || len(c.Writable) == 0 {
		return j.inner, false, nil
	}
	inner, err = innerDomain(append(slices.Clip(j.rules), policy.Private(c.Writable)...))
	return inner, true, err
}

func call(name string, nr uintptr, args ...uint64) stub.Step {
	s := stub.Step{Name: name, Call: nr}
	copy(s.Args[:], args)
	return s
}

func limit(resource int, value uint64) stub.Step {
	return stub.Step{Name: stub.Limit, Args: [3]uint64{uint64(resource), value}}
}

// onlyStage is the launch of a throw-away child that does one stage of this
// program's own, without any restriction.
func onlyStage(stage string) prepare {
	return func() (launch, error) {
		return launch{steps: []stub.Step{stub.Then(stage)}}, nil
	}
}

package jail

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/jail/stub"
)

// startBound is how long a stub may take to become the command.
const startBound = 20 * time.Second

// launch forks the stub, in a full jail from inside the outer domain, and waits
// until it has become the command.
func (p *Process) launch(c Command) error {
	if p.jail.cfg.Mode == Full {
		if err := p.jail.enterOuter(); err != nil {
			return err
		}
	}
	var ours []*os.File // closed here as soon as the child has its copies
	closeOurs := func() {
		for _, f := range ours {
			f.Close()
		}
	}
	defer closeOurs()
	open := func(f *os.File, err error) *os.File {
		if err != nil {
			return nil
		}
		ours = append(ours, f)
		return f
	}
	status, child, err := os.Pipe()
	if err != nil {
		return err
	}
	defer status.Close()
	files := [stub.Descriptors]*os.File{0: c.Stdin, 1: open(p.out.pipe(c.Stdout)), 2: open(p.out.pipe(c.Stderr)),
		stub.StatusFD: open(child, nil), stub.DirFD: c.Dir, stub.RulesFD: p.jail.inner, stub.FilterFD: p.jail.filter}
	if c.Stdin == nil {
		files[0] = open(os.Open(os.DevNull))
	}
	if files[0] == nil || files[1] == nil || files[2] == nil {
		return errors.New("no descriptors for the command's streams")
	}
	steps, err := p.steps(c)
	if err != nil {
		return err
	}
	env := c.Env
	if p.at != nil {
		env = p.at.environ()
	}
	p.pid, p.exited, err = children.fork(steps, c.Args, env, files[:])
	if err != nil {
		return err
	}
	closeOurs()
	return p.ready(status)
}

// steps are what the stub does before it becomes the command, in order. The
// limit on processes comes last: the stub may still need a thread before.
func (p *Process) steps(c Command) (s []string, err error) {
	add := func(name string, numbers ...any) {
		for _, n := range append([]any{name}, numbers...) {
			s = append(s, fmt.Sprint(n))
		}
	}
	if p.extra != "" {
		add(stub.Then, p.extra, 0, 0, 0)
		return s, nil
	}
	add("close_range", unix.SYS_CLOSE_RANGE, stub.StatusFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	add("die_with_server", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, int(unix.SIGKILL), 0) // with its thread, that is, which lives as long as the command
	if c.Dir != nil {
		add("chdir", unix.SYS_FCHDIR, stub.DirFD, 0, 0)
	}
	for _, r := range p.jail.rules {
		switch r.kind + " " + r.name {
		case "limit " + r.name:
			add(stub.Limit, limitNumber[r.name], r.bits, 0, 0)
		case "flag " + victim:
			add(stub.Victim, 0, 0, 0, 0)
		case "flag no_new_privs":
			add("no_new_privs", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0)
		}
	}
	if p.jail.cfg.Mode == Full {
		add("landlock", unix.SYS_LANDLOCK_RESTRICT_SELF, stub.RulesFD, 0, 0)
		if p.at != nil {
			add(stub.Then, "landlock", 0, 0, 0)
		}
		add(stub.Filter, unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, 0)
	}
	n, err := theBudget.limit(p.jail)
	now, _ := unix.Getpriority(unix.PRIO_PROCESS, 0)        // gives 20 - nice (getpriority(2))
	if has(p.jail.rules, "nice", "") && 20-now < niceness { // late, so that the stub itself is quick
		add("nice", unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, niceness)
	}
	if has(p.jail.rules, "budget", "nproc") {
		add(stub.Limit, unix.RLIMIT_NPROC, n, 0, 0)
	}
	if p.at != nil {
		p.at.Budget = uint64(n)
		add(stub.Then, "seccomp", 0, 0, 0)
	}
	return s, err
}

var limitNumber = map[string]int{"core": unix.RLIMIT_CORE, "nofile": unix.RLIMIT_NOFILE, "nproc": unix.RLIMIT_NPROC}

// ready waits for the stub's exec, which closes the status pipe without a
// word. What it says otherwise is the reason why it failed.
func (p *Process) ready(status *os.File) error {
	status.SetReadDeadline(time.Now().Add(startBound))
	said, err := io.ReadAll(io.LimitReader(status, 4096))
	if err == nil && len(said) == 0 {
		return nil
	}
	children.kill(p.pid)
	<-p.exited
	if err != nil {
		return errors.New("the stub did not start the command in time")
	}
	return errors.New(string(said))
}

package jail

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// startBound is how long a stub may take to become the command.
const startBound = 20 * time.Second

// launch forks the stub and waits until it has become the command.
func (p *Process) launch(c Command) error {
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
	files := [stubFDs]*os.File{0: c.Stdin, 1: open(p.out.pipe(c.Stdout)), 2: open(p.out.pipe(c.Stderr)),
		statusFD: open(child, nil), dirFD: c.Dir, rulesFD: p.jail.inner, filterFD: p.jail.filter}
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
	p.pid, p.exited, err = children.fork(append([]string{stubName, steps}, c.Args...), env, files[:])
	if err != nil {
		return err
	}
	closeOurs()
	return p.ready(status)
}

// steps are what the stub does before it becomes the command, in order. The
// limit on processes comes last: the stub may still need a thread before.
func (p *Process) steps(c Command) (string, error) {
	if p.extra != "" {
		return p.extra, nil
	}
	var s []string
	add := func(step string, args ...any) { s = append(s, fmt.Sprintf(step, args...)) }
	add("die_with_server")
	if c.Dir != nil {
		add("chdir")
	}
	for _, r := range p.jail.rules {
		switch r.kind + " " + r.name {
		case "limit " + r.name:
			add("limit=%d:%d", limitNumber[r.name], r.bits)
		case "flag no_new_privs":
			add("no_new_privs")
		}
	}
	if p.jail.cfg.Mode == Full {
		add("landlock")
		if p.at != nil {
			add("probe=landlock")
		}
		add("seccomp")
	}
	n, err := theBudget.limit(p.jail)
	if has(p.jail.rules, "nice", "") { // late, so that the stub itself is quick
		add("nice")
	}
	if has(p.jail.rules, "budget", "nproc") {
		add("limit=%d:%d", unix.RLIMIT_NPROC, n)
	}
	if p.at != nil {
		p.at.Budget = uint64(n)
		add("probe=seccomp")
	}
	return strings.Join(s, " "), err
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

package jail

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// startBound is how long a stub may take to become the command.
const startBound = 20 * time.Second

// descriptors are what a child gets: index is its number there. The opened
// ones are closed here as soon as the child has its copies.
type descriptors struct {
	fds    []uintptr
	opened []*os.File
}

func newDescriptors() *descriptors {
	d := &descriptors{fds: make([]uintptr, stubFDs)}
	for i := range d.fds {
		d.fds[i] = ^uintptr(0) // closed in the child
	}
	return d
}

func (d *descriptors) open(i int, f *os.File, err error) error {
	if err == nil {
		d.opened = append(d.opened, f)
		d.fds[i] = f.Fd()
	}
	return err
}

func (d *descriptors) close() {
	for _, f := range d.opened {
		f.Close()
	}
	d.opened = nil
}

// launch forks the stub and waits until it has become the command.
func (p *Process) launch(c Command) error {
	d := newDescriptors()
	defer d.close()
	status, child, err := os.Pipe()
	if err != nil {
		return err
	}
	defer status.Close()
	if err := errors.Join(d.open(statusFD, child, nil), p.connect(d, c)); err != nil {
		return err
	}
	steps, err := p.steps(d, c)
	if err != nil {
		return err
	}
	env := c.Env
	if p.at != nil {
		env = p.at.environ()
	}
	p.pid, p.exited, err = children.fork(append([]string{stubName, steps}, c.Args...), &syscall.ProcAttr{
		Env:   env,
		Files: d.fds,
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
	runtime.KeepAlive(c)
	if err != nil {
		return err
	}
	d.close()
	return p.ready(status)
}

// steps are what the stub does before it becomes the command, in order. The
// limit on processes comes last: the stub may still need a thread before.
func (p *Process) steps(d *descriptors, c Command) (string, error) {
	j := p.jail
	if p.extra != "" {
		return p.extra, nil
	}
	var s []string
	add := func(step string, args ...any) { s = append(s, fmt.Sprintf(step, args...)) }
	if c.Dir != nil {
		d.fds[dirFD] = c.Dir.Fd()
		add("chdir")
	}
	for _, r := range j.cfg.rules() {
		switch r.kind + " " + r.name {
		case "limit " + r.name:
			add("limit=%d:%d", limitNumber[r.name], r.bits)
		case "flag no_new_privs":
			add("no_new_privs")
		case "nice " + r.name:
			add("nice=%s", r.name)
		}
	}
	if j.cfg.Mode == Full {
		d.fds[rulesFD], d.fds[filterFD] = j.inner.Fd(), j.filter.Fd()
		add("landlock")
		if p.at != nil {
			add("probe=landlock")
		}
		add("seccomp")
	}
	n, err := theBudget.limit(j)
	add("limit=%d:%d", unix.RLIMIT_NPROC, n)
	if p.at != nil {
		add("probe=seccomp")
	}
	return strings.Join(s, " "), err
}

var limitNumber = map[string]int{"core": unix.RLIMIT_CORE, "nofile": unix.RLIMIT_NOFILE}

// connect opens the command's three streams.
func (p *Process) connect(d *descriptors, c Command) error {
	if c.Stdin != nil {
		d.fds[0] = c.Stdin.Fd()
	} else {
		null, err := os.Open(os.DevNull)
		if err := d.open(0, null, err); err != nil {
			return err
		}
	}
	for i, w := range []io.Writer{c.Stdout, c.Stderr} {
		end, err := p.out.pipe(w)
		if err := d.open(1+i, end, err); err != nil {
			return err
		}
	}
	return nil
}

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

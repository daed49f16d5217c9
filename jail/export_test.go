package jail

import (
	"context"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/jail/policy"
	"github.com/sallyport-dev/sallyport/jail/selftest"
)

// Rules are the lines of a policy that can be left out.
func Rules(c Config) (lines []string) {
	for _, r := range c.Rules() {
		lines = append(lines, r.String())
	}
	return lines
}

// NewWithout builds a jail without one rule, in which nothing may be started.
func NewWithout(c Config, line string) (*Jail, error) {
	return build(c, slices.DeleteFunc(c.Rules(), func(r policy.Rule) bool { return r.String() == line }), minABI)
}

// NewRequiring builds a jail that asks for a Landlock version.
func NewRequiring(c Config, abi int) (*Jail, error) { return build(c, c.Rules(), abi) }

// Redundant says whether a call is refused here even without the jail.
func Redundant(c Config, line string) bool {
	return slices.ContainsFunc(c.Rules(), func(r policy.Rule) bool {
		return r.String() == line && selftest.Refused(c, r, os.Getpid())
	})
}

// Run starts c and waits for its end.
func (j *Jail) Run(ctx context.Context, c Command) (Result, error) {
	p, err := j.Start(ctx, c)
	if err != nil {
		return Result{}, err
	}
	return p.Wait(), nil
}

// PID is the command's process.
func (p *Process) PID() int { return p.pid }

// Warden is the process that ends the command when this one is gone, 0 for none.
func (p *Process) Warden() int { return p.warden }

// Filter is the filter for an architecture, which need not be this one.
func Filter(c Config, arch string) []unix.SockFilter { return assemble(c.Rules(), arch) }

// RunPlain starts a program with nothing around it and waits for it.
func RunPlain(argv, env []string) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	children.mu.Lock()
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{Env: env, Files: []uintptr{null.Fd(), null.Fd(), null.Fd()}})
	exited := make(chan syscall.WaitStatus, 1)
	if err == nil {
		children.waiting[pid] = child{exited: exited}
	}
	children.mu.Unlock()
	if err != nil {
		return err
	}
	<-exited
	return nil
}

// Trial counts the account's tasks, as a throw-away child does.
func Trial() error { return trial() }

// System says whether root keeps a directory, whatever the settings ask.
func System(path string) bool { return system.MatchString(path) }

// WithLinks is withLinks, over another /etc.
func WithLinks(cfg Config, etc string) Config { return withLinks(cfg, etc) }

// Outside is what a jail takes the account to have elsewhere after the counts,
// the first of them taken while no command ran.
func Outside(first int, later ...int) int {
	c := counts{}.with(first, true)
	for _, n := range later {
		c = c.with(n, false)
	}
	return c.outside()
}

// ShortTurns are the longest turns of a thread that shortTurns was called for.
const ShortTurns = uint64(shortTurn)

// TakeShortTurns is what the thread of each command does.
func TakeShortTurns() { shortTurns(0) }

// GraceOver is when a grace ends.
var GraceOver = graceOver

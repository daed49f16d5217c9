package jail

import (
	"context"
	"os"
	"regexp"
	"syscall"

	"golang.org/x/sys/unix"
)

// Omit leaves a rule out of every policy that is built from now on.
func Omit(rule string) { omit = rule }

// Rules are the lines of a policy that can be left out.
func (c Config) Rules() (lines []string) {
	for _, r := range c.rules() {
		lines = append(lines, r.String())
	}
	return lines
}

// Redundant says whether a call is refused here even without the jail: the
// kernel does not have it, or a container engine's own filter stands before it.
func (c Config) Redundant(rule string) bool {
	for _, a := range (place{Config: c, Canary: os.Getpid()}).callAttempts() {
		if a.wall == rule && a.try() != a.want {
			return false
		}
	}
	return true
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

// UnknownCall is the first number that the policy has not seen.
const UnknownCall = unknownCall

// Filter is the filter for an architecture, which need not be this one.
func (c Config) Filter(arch string) []unix.SockFilter { return assemble(c.rules(), arch) }

// Numbers are the calls that the policy can name; -1 where there is none.
func Numbers(arch string) map[string]int {
	all := map[string]int{}
	for _, name := range regexp.MustCompile(`[a-z]\w+`).FindAllString(numbers, -1) {
		nr, ok := number(name, arch)
		if all[name] = int(nr); !ok {
			all[name] = -1
		}
	}
	return all
}

// RequireABI makes the jail ask for another Landlock version.
func RequireABI(v int) (undo func()) {
	was := minABI
	minABI = v
	return func() { minABI = was }
}

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
		children.waiting[pid] = exited
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

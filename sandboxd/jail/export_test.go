package jail

import "os"

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

// PID is the command's process.
func (p *Process) PID() int { return p.pid }

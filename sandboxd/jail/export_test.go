package jail

import (
	"runtime"
	"strings"

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

// Unknown says whether this kernel does not know the call that a rule refuses.
func Unknown(rule string) bool {
	name := strings.Fields(rule)[1]
	nr, _ := number(name, runtime.GOARCH)
	return strings.HasSuffix(rule, "ENOSYS") && call(nr, invalid())() == unix.ENOSYS
}

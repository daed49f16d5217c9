// Package jailtest lets the tests of other packages run commands in a jail.
package jailtest

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/jail"
)

// Main is the TestMain of a package whose tests build a jail. Started as root
// it continues as a uid of its own (so that no two test processes share one
// budget of processes), because a jail does not run commands as root.
func Main(m *testing.M) {
	if os.Geteuid() == 0 {
		uid := 100000 + os.Getpid()
		if err := (jail.Workspace{UID: uid, GID: uid}).DropRoot(); err != nil {
			panic(err)
		}
		// The go command's own log lies where only root can write.
		os.Args = slices.DeleteFunc(os.Args, func(arg string) bool {
			return strings.HasPrefix(arg,
				"-test.testlogfile=")
		})
	}
	os.Exit(m.Run())
}

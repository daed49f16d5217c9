// Package selftest tries, from inside a throw-away child, every rule of a
// policy: each refusal by an attempt that must fail and each grant by one that
// must succeed. Attempts are harmless if they get through.
package selftest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/jail/policy"
)

// The stages of a self-test, in the order in which a child comes to them.
const (
	Files = "files" // once the domain is in force
	Calls = "calls" // once everything is
)

// Place is what a self-test aims at. The server makes it and passes it in the
// child's environment.
type Place struct {
	Config                 policy.Config
	Server, Thread, Canary int    // processes that a command must not reach
	Outside, Inside        string // directories beside each other; only Inside is granted
	Abstract               string // a socket of the server
	Budget                 uint64 // the limit on processes
}

// NewPlace lays out, in an empty directory, what a self-test aims at.
func NewPlace(cfg policy.Config, dir string, canary int) (Place, error) {
	at := Place{Config: cfg, Server: os.Getpid(), Canary: canary, Abstract: "@" + filepath.Base(dir),
		Outside: filepath.Join(dir, "outside"), Inside: filepath.Join(dir, "inside")}
	for _, d := range []string{at.Outside + "/dir", at.Inside + "/a", at.Inside + "/b"} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return at, err
		}
	}
	for _, f := range []string{at.Outside + "/file", at.Outside + "/gone", at.Outside + "/data",
		at.Inside + "/a/file"} {
		if err := os.WriteFile(f, []byte("x"), 0o755); err != nil {
			return at, err
		}
	}
	return at, nil
}

// Rules are those of a jail, but for the grants around the place (where
// everything writable is granted, as in a container, there would be no outside),
// and for one device and one file that can be opened and no more.
func (at Place) Rules(rules policy.Rules) (rs policy.Rules) {
	for _, r := range rules {
		if g, ok := r.(policy.Grant); ok {
			if g.Access == policy.Write && under(at.Outside, g.Path) {
				continue
			}
			if g.Path == "/dev/full" {
				g.Rights &^= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
			}
			r = g
		}
		rs = append(rs, r)
	}
	return append(rs, policy.Grant{Access: policy.Write, Path: at.Inside, Rights: policy.Write.Rights()},
		policy.Grant{Access: policy.Write, Path: at.Outside + "/data", Rights: unix.LANDLOCK_ACCESS_FS_READ_FILE})
}

func under(path, dir string) bool { return strings.HasPrefix(path, dir+"/") }

const variable = "SALLYPORT_SELF_TEST"

// Environ tells a child where it is, which thread of the server holds it and
// what its limit on processes is.
func (at Place) Environ(thread int, budget uint64) []string {
	at.Thread, at.Budget = thread, budget
	raw, _ := json.Marshal(at) // strings and numbers only: there is no error
	return []string{variable + "=" + string(raw)}
}

// here is the place that Environ told.
func here() (at Place, err error) {
	return at, json.Unmarshal([]byte(os.Getenv(variable)), &at)
}

// passed is what a child says when every attempt of both stages went as it must.
var passed = regexp.MustCompile(`^` + Files + ` [1-9]\d*\n` + Calls + ` [1-9]\d*\n$`)

// Verdict reads what a child has said. The error names each rule that is not
// enforced.
func Verdict(said string) error {
	if passed.MatchString(said) {
		return nil
	}
	return fmt.Errorf("not enforced: %s", strings.ReplaceAll(strings.TrimSpace(said), "\n", "; "))
}

package jail_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/jail"
)

// Whatever single rule is left out of the policy, a jail does not get built:
// its self-test walks through the gap.
func TestEachRuleIsMissed(t *testing.T) {
	if testing.Short() {
		t.Skip("make test runs it")
	}
	for _, cfg := range configs(t) {
		j, err := jail.New(cfg)
		if err != nil {
			t.Fatalf("the whole policy: %v", err)
		}
		j.Close()
		for _, rule := range jail.Rules(cfg) {
			if redundant(cfg, rule) {
				continue
			}
			unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
			j, err := jail.NewWithout(cfg, rule)
			if err == nil {
				j.Close()
				t.Errorf("network %s, container %v: nothing misses %q", cfg.Network, cfg.InContainer, rule)
			}
		}
	}
}

// redundant rules make no difference here: paths that are missing or lie
// under another granted path, as /bin does where it is a link, calls that are
// refused here anyway, and in a container the grants of directories, which the
// self-test could list anyway: the developer's tools would miss those.
func redundant(cfg jail.Config, rule string) bool {
	kind, name, _ := strings.Cut(rule, " ")
	switch kind {
	case "call":
		return jail.Redundant(cfg, rule)
	case "nice": // so low is the tests' own priority already
		now, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
		return err == nil && 20-now >= atoi(name)
	case "limit": // and what is so low already
		resource, ok := map[string]int{"nice": unix.RLIMIT_NICE, "rtprio": unix.RLIMIT_RTPRIO}[strings.Fields(name)[0]]
		var now unix.Rlimit
		return ok && unix.Getrlimit(resource, &now) == nil && now.Max == 0
	case "flag":
		return (contained || inNamespace()) && name == "no_new_privs" // the engine has set it, or Reexec
	case "read", "write", "device":
		path, err := filepath.EvalSymlinks(name)
		info, _ := os.Stat(name)
		if cfg.PrivateMounts && name == "/tmp" { // the self-test's own place lies there
			return true
		}
		return err != nil || path != name || cfg.InContainer && info.IsDir()
	}
	return false
}

func configs(t *testing.T) (cs []jail.Config) {
	for _, network := range []jail.Network{jail.None, jail.Container} {
		for _, container := range []bool{false, true} {
			cs = append(cs, jail.Config{Mode: jail.Full, Network: network, InContainer: container, Writable: []string{t.TempDir()}})
		}
	}
	if inNamespace() {
		cs = []jail.Config{
			{Mode: jail.Full, Network: jail.None, PrivateMounts: true, Writable: []string{t.TempDir()}},
			{Mode: jail.Full, Network: jail.Allowlist, PrivateMounts: true, Writable: []string{t.TempDir()}},
			{Mode: jail.Full, Network: jail.Allowlist, InContainer: true, Writable: []string{t.TempDir()}},
		}
	}
	return cs
}

// A kernel that is too old stops the start, with what is missing, the way out
// and what that loses.
func TestOldKernel(t *testing.T) {
	_, err := jail.NewRequiring(jail.Config{Mode: jail.Full, Network: jail.None, Writable: []string{t.TempDir()}}, 99)
	for _, want := range []string{"Landlock version 99 is needed", "this kernel has", "MCP_JAIL=group", "token"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	// Nothing falls open by itself, and what was asked for is logged.
	j, err := jail.New(jail.Config{Mode: jail.Group})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if n := j.Notices(); len(n) != 1 || !strings.Contains(n[0], "MCP_JAIL=group") {
		t.Errorf("%q", n)
	}
}

// Package rig starts the real things for tests: Traefik with the plugin from
// this checkout, sandboxd, containers, clients. Everything a test starts ends
// with the test, listens on loopback ports of its own, and leaves its log in
// the test's output when the test fails.
package rig

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/tools"
)

// Need says that a test cannot run without what: a loud skip, and a failure
// where CI=true, since a gate that skips is not a gate.
func Need(t testing.TB, err error, what string) {
	t.Helper()
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("missing: %s: %v", what, err)
	default:
		t.Skipf("SKIPPED, missing: %s: %v", what, err)
	}
}

// NeedCommand returns the path of a command, or Needs it.
func NeedCommand(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	Need(t, err, "the command "+name)
	return path
}

// NeedRoot is for tests that change users, mount or make namespaces.
func NeedRoot(t testing.TB) {
	t.Helper()
	accounts, _ := os.ReadFile("/proc/self/uid_map")
	alone := strings.HasSuffix(strings.TrimSpace(string(accounts)), " 1") // root of a namespace for one account
	if os.Geteuid() != 0 || alone {
		Need(t, os.ErrPermission, "root")
	}
}

// NPM returns a folder with the packages of e2e/npm/<set> in its node_modules.
func NPM(t testing.TB, set string) string {
	t.Helper()
	NeedCommand(t, "node")
	NeedCommand(t, "npm")
	dir, err := tools.NPM(set)
	Need(t, err, "npm packages of "+set)
	return dir
}

// Root returns the checkout.
func Root(t testing.TB) string {
	t.Helper()
	root, err := tools.Root()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// Lock takes a lock of this machine until the test ends: for what exists only
// once, such as the fixed ports of the compose stack ("stack") or the
// processor in a benchmark ("bench").
func Lock(t testing.TB, name string) {
	t.Helper()
	unlock, err := tools.Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(unlock)
	if name == "stack" {
		sweepStacks(t)
	}
}

// sweepStacks removes, by id, the stacks of test runs that were killed: their
// containers start again with the engine and hold the fixed ports. Stacks of
// tests exist only under the lock that the caller has, so each one is a
// leftover.
func sweepStacks(t testing.TB) {
	t.Helper()
	const project = "com.docker.compose.project"
	format := `{{.ID}} {{.Label "` + project + `"}}`
	for _, kind := range [][]string{
		{"docker", "ps", "--all", "--filter", "label=" + project, "--format", format},
		{"docker", "network", "ls", "--filter", "label=" + project, "--format", format},
	} {
		out, _ := exec.Command(kind[0], kind[1:]...).Output() // without an engine there are none
		for line := range strings.Lines(string(out)) {
			id, owner, _ := strings.Cut(strings.TrimSpace(line), " ")
			if !strings.HasPrefix(owner, stackPrefix) {
				continue
			}
			remove := []string{"rm", "--force", "--volumes", id}
			if kind[1] == "network" {
				remove = []string{"network", "rm", id}
			}
			out, err := exec.Command("docker", remove...).CombinedOutput()
			t.Logf("leftover of a killed run, stack %s: removed %s: %v %s", owner, id, err, out)
		}
	}
}

// Package sandbox tests the jail where it is used: in a locked container, from
// outside through sandboxd, and against the owner's own attack command.
package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/e2e/tools"
)

// uid is an account that nobody else on this machine has.
const uid = "64777"

// locked are the arguments of docker run that the documents recommend.
func locked(more ...string) []string { return rig.Locked(uid, more...) }

// The kernel tests of the jail, as they run on the bare machine, in the locked
// container: restrictions on and off, escapes, runaway forks and the soak. The tools
// are this machine's, lent to the image.
func TestJailInLockedContainer(t *testing.T) {
	rig.NeedImages(t)
	var out string
	t.Run("locked", func(t *testing.T) { out = inLockedContainer(t, nil, nil, "-test.v") })
	if os.Getenv("SALLYPORT_SOAK") != "" {
		// It needs memory of its own, and room for twelve stubs at once that start with more threads.
		t.Run("race detector", func(t *testing.T) {
			inLockedContainer(t, []string{"-race"}, []string{"--memory", "4g", "--pids-limit", "480"}, "-test.v", "-test.run=^TestSoak$")
		})
	}
	for _, name := range []string{"TestAttacks", "TestAttacksWithoutWalls", "TestEscapes", "TestNothingIsLeft", "TestRunawayForks", "TestSoak", "TestEachRuleIsMissed", "TestDeveloperTools", "TestOutOfMemory", "TestSharedMemoryDoesNotStay", "TestServerOutlivesFullMemory", "TestChainsOutliveAGroup"} {
		if !strings.Contains(out, "--- PASS: "+name+" ") {
			t.Errorf("%s did not run:\n%s", name, out)
		}
	}
}

// inLockedContainer builds the jail's tests and returns what they say there.
func inLockedContainer(t *testing.T, build, lock []string, args ...string) string {
	t.Helper()
	d := rig.NeedImages(t)
	rig.Lock(t, "cpu")
	dir := rig.PublicDir(t)
	bin := filepath.Join(dir, "jail.test")
	cmd := exec.Command("go", append(append([]string{"test", "-c", "-tags", "container", "-o", bin}, build...), "./jail")...)
	cmd.Dir = rig.Root(t)
	cmd.Env = append(cmd.Environ(), "GOWORK=off")
	if len(build) == 0 {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=0")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	options := locked(append([]string{"--rm", "--name", d.Name, "--network", "none", "-v", dir + ":/t:ro", "-v", "/usr:/usr:ro", "-v", "/etc/alternatives:/etc/alternatives:ro",
		"-w", "/workspace", "-e", "TMPDIR=/workspace", "-e", "SALLYPORT_TEST_CONTAINER=1", "-e", "SALLYPORT_SOAK"}, lock...)...)
	out, err := d.Try(slices.Concat([]string{"run"}, options, []string{tools.DebianImage, "/t/jail.test"}, args)...)
	if err != nil || !strings.Contains(out, "\nPASS") {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Log("\n" + strings.Join(pastTimeout.FindAllString(out, -1), "\n"))
	return out
}

var pastTimeout = regexp.MustCompile(`(?m)^ +\w+_test\.go:\d+: .*past the timeout.*$`)

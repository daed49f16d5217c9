// Package sandbox tests the jail where it is used: in a locked container, from
// outside through sandboxd, and against the owner's own attack command.
package sandbox

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/e2e/tools"
)

// uid is an account that nobody else on this machine has.
const uid = "64777"

// locked are the arguments of docker run that the documents recommend.
func locked(more ...string) []string {
	return append([]string{
		"--user", uid + ":" + uid, "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only",
		"--tmpfs", "/tmp:exec,mode=1777", "--tmpfs", "/workspace:exec,uid=" + uid,
		"--pids-limit", "128", "--memory", "512m", "--cpus", "2",
	}, more...)
}

// The kernel tests of the jail, as they run on the bare machine, in the locked
// container: walls off and on, escapes, runaway forks and the soak. The tools
// are this machine's, lent to the image.
func TestJailInLockedContainer(t *testing.T) {
	d := rig.NeedImages(t)
	rig.Lock(t, "cpu")
	dir := rig.PublicDir(t)
	bin := filepath.Join(dir, "jail.test")
	build := exec.Command("go", "test", "-c", "-tags", "container", "-o", bin, "./sandboxd/jail")
	build.Dir = rig.Root(t)
	build.Env = append(build.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	args := locked("--rm", "--name", d.Name, "--network", "none", "-v", dir+":/t:ro", "-v", "/usr:/usr:ro", "-v", "/etc/alternatives:/etc/alternatives:ro",
		"-w", "/workspace", "-e", "TMPDIR=/workspace", "-e", "SALLYPORT_TEST_CONTAINER=1", "-e", "SALLYPORT_SOAK", tools.DebianImage, "/t/jail.test", "-test.v")
	out, err := d.Try(append([]string{"run"}, args...)...)
	if err != nil || !strings.Contains(out, "\nPASS") {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"TestAttacks", "TestAttacksWithoutWalls", "TestEscapes", "TestRunawayForks", "TestSoak", "TestEachRuleIsMissed", "TestDeveloperTools", "TestOutOfMemory", "TestServerOutlivesFullMemory", "TestChainsOutliveAGroup"} {
		if !strings.Contains(out, "--- PASS: "+name+" ") {
			t.Errorf("%s did not run:\n%s", name, out)
		}
	}
}

package rig

import (
	"bytes"
	"crypto/rand"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/tools"
)

// Docker drives the engine that answers `docker version`. What it makes gets
// names of the test's own and is removed by id at the test's end.
type Docker struct {
	t    testing.TB
	Name string // prefix for names in this test, lower case
}

// stackPrefix begins the project name of every stack that a test starts.
const stackPrefix = "sallyport-e2e-"

// NeedDocker returns a handle, or Needs a Docker engine.
func NeedDocker(t testing.TB) *Docker {
	t.Helper()
	NeedCommand(t, "docker")
	Need(t, exec.Command("docker", "version").Run(), "a Docker engine")
	return &Docker{t, stackPrefix + strings.ToLower(rand.Text()[:8])}
}

// NeedImages is NeedDocker with the base images made: tools.DebianImage,
// tools.GoImage and tools.TraefikImage.
func NeedImages(t testing.TB) *Docker {
	t.Helper()
	d := NeedDocker(t)
	Need(t, tools.Images(), "base images (debootstrap and root)")
	return d
}

// Run runs a docker command, fails the test where it fails, and returns its
// output without surrounding space.
func (d *Docker) Run(args ...string) string {
	d.t.Helper()
	out, err := d.Try(args...)
	if err != nil {
		d.t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// Try runs a docker command and returns stdout, or both streams with an error.
func (d *Docker) Try(args ...string) (string, error) {
	cmd := exec.Command("docker", args...)
	cmd.Env = append(os.Environ(), "DOCKER_BUILDKIT=0") // Debian's engine has no buildx
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		return stdout.String() + stderr.String(), err
	}
	return strings.TrimSpace(stdout.String()), nil
}

// Container starts `docker run -d` with the arguments and returns the id; the
// container goes at the test's end and shows its log if the test failed.
func (d *Docker) Container(args ...string) string {
	d.t.Helper()
	id := d.Run(append([]string{"run", "-d"}, args...)...)
	d.t.Cleanup(func() {
		if d.t.Failed() {
			out, _ := exec.Command("docker", "logs", id).CombinedOutput()
			d.t.Logf("--- log of container %.12s\n%s", id, out)
		}
		d.Try("rm", "-f", "-v", id)
	})
	return id
}

// Network makes a network and returns its id.
func (d *Docker) Network(args ...string) string {
	d.t.Helper()
	id := d.Run(append([]string{"network", "create"}, args...)...)
	d.t.Cleanup(func() { d.Try("network", "rm", id) })
	return id
}

// Locked are the arguments of docker run that the documents recommend (docs/docker.md),
// for a user, and more of them.
func Locked(uid string, more ...string) []string {
	return append([]string{
		"--user", uid + ":" + uid, "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only",
		"--tmpfs", "/tmp:exec,mode=1777", "--tmpfs", "/private:exec,mode=1777", "--tmpfs", "/workspace:exec,uid=" + uid,
		"--pids-limit", "240", "--memory", "512m", "--cpus", "2",
	}, more...)
}

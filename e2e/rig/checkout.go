package rig

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/tools"
)

// A Checkout is a fresh copy of the repository that belongs to one user, as
// after git clone: what a test of the Makefile starts from.
type Checkout struct {
	Dir string
	Env []string // environment of its commands
	UID uint32
	t   testing.TB
}

// NewCheckout copies what Git knows, and new files that it does not ignore, to a
// folder that belongs to uid. Another user than one's own Needs root.
func NewCheckout(t testing.TB, uid uint32) *Checkout {
	t.Helper()
	if int(uid) != os.Geteuid() {
		NeedRoot(t)
	}
	home := PublicDir(t)
	c := &Checkout{Dir: filepath.Join(home, "sallyport"), UID: uid, t: t}
	if err := tools.CopyCheckout(c.Dir); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("chown", "-R", "--no-dereference", itoa(uid)+":"+itoa(uid), home).CombinedOutput(); err != nil {
		t.Fatalf("chown: %v\n%.2000s", err, out)
	}
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GOFLAGS=-buildvcs=false"}
	return c
}

// Command prepares a command that runs in the checkout as its user, who may use
// Docker.
func (c *Checkout) Command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = c.Dir, c.Env
	if int(c.UID) != os.Geteuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{
			Uid: c.UID, Gid: c.UID, Groups: dockerGroup(),
		}}
	}
	return cmd
}

// Make runs make and returns its output, or fails the test.
func (c *Checkout) Make(args ...string) string {
	c.t.Helper()
	out, err := c.Command("make", args...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("make %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Read returns a file of the checkout without surrounding space.
func (c *Checkout) Read(name string) string {
	c.t.Helper()
	data, err := os.ReadFile(filepath.Join(c.Dir, name))
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// Stack prepares the checkout for `make up` under a project name of the test's
// own, with the stand-in images and a free port for Traefik. The stack and its
// images go at the test's end. The fixed ports of the backends are the test's
// alone meanwhile.
func (c *Checkout) Stack(d *Docker) (https string) {
	c.t.Helper()
	Lock(c.t, "stack")
	compose, err := tools.Compose()
	Need(c.t, err, "docker compose")
	plugins := filepath.Join(filepath.Dir(c.Dir), ".docker", "cli-plugins")
	if err := os.MkdirAll(plugins, 0o755); err != nil {
		c.t.Fatal(err)
	}
	if out, err := exec.Command("cp", compose, filepath.Join(plugins, "docker-compose")).CombinedOutput(); err != nil {
		c.t.Fatalf("%v: %s", err, out)
	}
	if err := os.Chown(filepath.Dir(plugins), int(c.UID), int(c.UID)); err != nil {
		c.t.Fatal(err)
	}
	https = FreeAddr(c.t)
	c.Env = append(c.Env, "COMPOSE_PROJECT_NAME="+d.Name, "SALLYPORT_HTTPS="+https,
		"GO_IMAGE="+tools.GoImage, "TRAEFIK_IMAGE="+tools.TraefikImage)
	c.t.Cleanup(func() {
		if c.t.Failed() {
			out, _ := c.Command("docker", "compose", "logs", "--no-color").CombinedOutput()
			c.t.Logf("--- logs of the stack\n%s", out)
		}
		down := c.Command("docker", "compose", "--profile", "*", "down", "--volumes", "--rmi", "local", "--timeout", "20")
		if out, err := down.CombinedOutput(); err != nil {
			c.t.Logf("docker compose down: %v\n%s", err, out)
		}
	})
	return https
}

// dockerGroup is the group that may use the Docker socket, where there is one.
func dockerGroup() []uint32 {
	var st syscall.Stat_t
	if syscall.Stat("/var/run/docker.sock", &st) != nil {
		return nil
	}
	return []uint32{st.Gid}
}

func itoa(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

package proxy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sallyport-dev/sallyport/dockerproxy/spec"
	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// engine is a Docker daemon of the test's own, with no network and no say
// over anything that exists, so that it may be killed.
type engine struct {
	t       *testing.T
	dir     string
	process *rig.Process
}

func (e *engine) socket() string { return e.dir + "/docker.sock" }

func (e *engine) start() {
	e.t.Helper()
	for _, stale := range []string{"/docker.pid", "/exec/containerd/containerd.pid"} { // of a killed one
		os.Remove(e.dir + stale)
	}
	cmd := exec.Command(rig.NeedCommand(e.t, "dockerd"), "--host", "unix://"+e.socket(), "--data-root", e.dir+"/data", "--exec-root", e.dir+"/exec",
		"--pidfile", e.dir+"/docker.pid", "--bridge", "none", "--iptables=false", "--ip6tables=false", "--storage-driver", "vfs")
	// A network namespace of its own: with --bridge none it takes docker0 away.
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	e.process = rig.Start(e.t, cmd)
	rig.Until(e.t, "the second daemon answers", func() bool { return e.docker("version") == nil }, e.process)
}

func (e *engine) docker(args ...string) error {
	return exec.Command("docker", append([]string{"--host", "unix://" + e.socket()}, args...)...).Run()
}

// kill the daemon and its containerd at once, as a crash of the machine's
// engine does; what ran in containers dies with the shims, which are ours.
func (e *engine) kill() {
	syscall.Kill(-e.process.Cmd.Process.Pid, syscall.SIGKILL)
	<-e.process.Done
	e.shims()
}

// shims ends the shims that this engine has started: they are named by its
// exec root, and by nothing else.
func (e *engine) shims() {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		line, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(line), "shim") && strings.Contains(string(line), e.dir) {
			var pid int
			for _, c := range strings.Split(path, "/")[2] {
				pid = pid*10 + int(c-'0')
			}
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// TestDaemonCrash: the hub is told, nothing hangs, and all works again once
// the daemon is back, without help.
func TestDaemonCrash(t *testing.T) {
	rig.NeedRoot(t)
	b := prepare(t)
	e := &engine{t: t, dir: rig.PublicDir(t)}
	e.start()
	t.Cleanup(func() {
		for _, dir := range []string{"data", "exec"} { // mounts that a killed daemon leaves
			exec.Command("sh", "-c", `grep -o "$0[^ ]*" /proc/mounts | sort -r | xargs -r -n 1 umount -l`, e.dir+"/"+dir).Run()
		}
	})
	t.Cleanup(func() { e.process.Stop(); e.shims() })
	save := exec.Command("sh", "-c", `docker save "$0" | docker --host "unix://$1" load`, b.image, e.socket())
	if out, err := save.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b.config(`"box": {"type": "docker", "image": "IMAGE"}`)
	b.start("DOCKER_SOCKET=" + e.socket())
	l := b.run("box", nil)
	if got := l.sh("echo before"); got != "before" {
		t.Fatalf("%q", got)
	}
	e.kill()
	if end := l.end(); end.Reason != spec.EndLost {
		t.Errorf("the daemon is gone: %+v", end)
	}
	if _, reply := b.greet(); reply.OK || !strings.Contains(reply.Error, "does not answer") {
		t.Errorf("a handshake without a daemon: %+v", reply)
	}
	e.start()
	if got := b.run("box", nil).sh("echo after"); got != "after" {
		t.Errorf("%q", got)
	}
}

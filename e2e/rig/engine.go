package rig

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Engine is a Docker daemon of the test's own, with no network and no say over
// anything that exists, so that it may be killed.
type Engine struct {
	t       testing.TB
	dir     string
	process *Process
}

// StartEngine starts one; it ends, with all it has started, at the test's end.
func StartEngine(t testing.TB) *Engine {
	t.Helper()
	NeedRoot(t)
	e := &Engine{t: t, dir: PublicDir(t)}
	e.Start()
	t.Cleanup(func() {
		for _, dir := range []string{"data", "exec"} { // mounts that a killed daemon leaves
			exec.Command("sh", "-c", `grep -o "$0[^ ]*" /proc/mounts | sort -r | xargs -r -n 1 umount -l`, e.dir+"/"+dir).Run()
		}
	})
	t.Cleanup(func() { e.process.Stop(); e.endShims() })
	return e
}

// Socket is where it answers.
func (e *Engine) Socket() string { return e.dir + "/docker.sock" }

// Start starts it again after its end, with the data it had.
func (e *Engine) Start() {
	e.t.Helper()
	for _, stale := range []string{"/docker.pid", "/exec/containerd/containerd.pid"} { // of a killed one
		os.Remove(e.dir + stale)
	}
	cmd := exec.Command(NeedCommand(e.t, "dockerd"), "--host", "unix://"+e.Socket(), "--data-root", e.dir+"/data", "--exec-root", e.dir+"/exec",
		"--pidfile", e.dir+"/docker.pid", "--bridge", "none", "--iptables=false", "--ip6tables=false", "--storage-driver", "vfs", "--log-level", "warn")
	// A network namespace of its own: with --bridge none it takes docker0 away.
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	e.process = Start(e.t, cmd)
	Until(e.t, "the second daemon answers", func() bool { return e.Command("version").Run() == nil }, e.process)
}

// Command is a docker command that this engine answers.
func (e *Engine) Command(args ...string) *exec.Cmd {
	return exec.Command("docker", append([]string{"--host", "unix://" + e.Socket()}, args...)...)
}

// Stop ends it in good order: it stops its containers first.
func (e *Engine) Stop() { e.process.Stop() }

// Kill ends the daemon and its containerd at once, as a crash of the machine's
// engine does; what ran in containers dies with the shims, which are ours.
func (e *Engine) Kill() {
	syscall.Kill(-e.process.Cmd.Process.Pid, syscall.SIGKILL)
	<-e.process.Done
	e.endShims()
}

// endShims ends the shims that this engine has started: they are named by its
// exec root, and by nothing else.
func (e *Engine) endShims() {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		line, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(line), "shim") && strings.Contains(string(line), e.dir) {
			if pid, err := strconv.Atoi(strings.Split(path, "/")[2]); err == nil {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

package run_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// However the start of make run is ended, the server ends, and with it everything
// that a command of it has started, also what has left its session.
func TestEveryEnd(t *testing.T) {
	rig.Lock(t, "stack") // the port
	c := rig.NewCheckout(t, uint32(os.Geteuid()))
	c.Env = append(c.Env, "GOCACHE="+rig.GoCache(t))
	c.Make("bin/sallyport-run", "bin/sallyport")
	hangups := make(chan os.Signal, 1) // under nohup the children would inherit that SIGHUP is ignored
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	alone := func(sig syscall.Signal) func(*testing.T, *exec.Cmd) {
		return func(_ *testing.T, cmd *exec.Cmd) { syscall.Kill(cmd.Process.Pid, sig) }
	}
	// make passes SIGTERM on; the terminal sends the other two to the whole group.
	group := func(sig syscall.Signal) func(*testing.T, *exec.Cmd) {
		return func(_ *testing.T, cmd *exec.Cmd) { syscall.Kill(-cmd.Process.Pid, sig) }
	}
	for name, end := range map[string]struct {
		args []string
		end  func(*testing.T, *exec.Cmd)
	}{
		"SIGTERM to make":     {[]string{"make", "run"}, alone(syscall.SIGTERM)},
		"Ctrl-C":              {[]string{"make", "run"}, group(syscall.SIGINT)},
		"a service manager":   {[]string{"setsid", "--wait", "bin/sallyport-run"}, terminateChild},
		"nohup, then SIGTERM": {[]string{"nohup", "bin/sallyport-run"}, alone(syscall.SIGTERM)},
		"timeout":             {[]string{"timeout", "60", "make", "run"}, alone(syscall.SIGTERM)},
		"SIGHUP":              {[]string{"make", "run"}, group(syscall.SIGHUP)},
	} {
		t.Run(name, func(t *testing.T) {
			p := rig.Start(t, c.Command(end.args[0], end.args[1:]...))
			ends(t, c, p, func() { end.end(t, p.Cmd) })
		})
	}
	t.Run("a closed terminal", func(t *testing.T) {
		master, slave := terminal(t)
		// As with a login shell: the kernel tells the session's leader, and when that
		// ends, everybody in the foreground.
		cmd := c.Command("sh", "-c", "make run; :")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		slave.Close()
		p := &rig.Process{Cmd: cmd, Log: &rig.Log{}, Done: make(chan struct{})}
		go func() { p.Err = cmd.Wait(); close(p.Done) }()
		t.Cleanup(func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		go func() { // a terminal that nobody reads holds its writers up
			buffer := make([]byte, 4096)
			for {
				if _, err := master.Read(buffer); err != nil {
					return
				}
			}
		}()
		ends(t, c, p, func() { master.Close() })
	})
}

// ends checks that nothing is left of p once end was called while a command runs.
func ends(t *testing.T, c *rig.Checkout, p *rig.Process, end func()) {
	t.Helper()
	rig.Until(t, "make run to serve", func() bool { return rig.Status(origin+"/healthz") == 200 }, p)
	session := rig.Connect(t, origin+"/mcp-sandbox", c.Read(".sallyport/edge/client-token"), rig.Streamable)
	mark := fmt.Sprintf("3%09d", time.Now().UnixNano()%1e9)
	go session.CallTool(context.WithoutCancel(t.Context()), callOf("setsid sleep "+mark+" & sleep "+mark))
	rig.Until(t, "the command to run", func() bool { return len(sleeping(mark)) == 2 }, p)
	end()
	rig.Until(t, "the start to end", func() bool {
		select {
		case <-p.Done:
			return true
		default:
			return false
		}
	})
	rig.Until(t, "the server to end", func() bool { return len(running(t, filepath.Join(c.Dir, "bin", "sallyport-run"))) == 0 })
	if left := sleeping(mark); len(left) > 0 {
		t.Errorf("still running: %q", left)
	}
}

// sleeping lists the processes whose arguments hold mark as a whole.
func sleeping(mark string) (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is well formed
	for _, file := range files {
		if line, err := os.ReadFile(file); err == nil && string(line) == "sleep\x00"+mark+"\x00" {
			found = append(found, strings.Split(file, "/")[2])
		}
	}
	return found
}

// terminateChild is what systemd does: SIGTERM to the main process, which here is
// the only child of the process that waits for it.
func terminateChild(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	pid := cmd.Process.Pid
	if out, err := exec.Command("pkill", "-TERM", "-P", fmt.Sprint(pid)).CombinedOutput(); err != nil {
		syscall.Kill(pid, syscall.SIGTERM) // setsid did not need to fork
		t.Logf("pkill: %v %s", err, out)
	}
}

// terminal opens a pseudo-terminal.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	rig.Need(t, err, "a pseudo-terminal")
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "ptmx") // without blocking, so that Close ends a Read
	t.Cleanup(func() { master.Close() })
	return master, slave
}

func callOf(command string) *mcp.CallToolParams {
	return &mcp.CallToolParams{Name: "run_command", Arguments: rig.Args{"command": command, "timeout_seconds": 100}}
}

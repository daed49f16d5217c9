package rig

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/tools"
)

// Deadline is how long the rig waits for anything to happen. Machines are
// small and busy: only something that never happens should meet it.
const Deadline = 3 * time.Minute

// Log collects a process's output. It may be read while it grows.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends to the log.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String returns what was written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Process is a running program of a test.
type Process struct {
	Cmd  *exec.Cmd
	Log  *Log          // stdout and stderr together
	Done chan struct{} // closed at its end
	Err  error         // how it ended; valid once Done is closed
}

// Start starts a program in a process group of its own. At the test's end the
// group gets SIGTERM, ten seconds later SIGKILL; its log is shown if the test
// failed.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{Cmd: cmd, Log: &Log{}, Done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.Log, p.Log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.Err = cmd.Wait(); close(p.Done) }()
	t.Cleanup(func() {
		p.Stop()
		if t.Failed() {
			t.Logf("--- log of %s\n%s", filepath.Base(cmd.Path), p.Log)
		}
	})
	return p
}

// Stop ends the process and waits for its end.
func (p *Process) Stop() {
	group := -p.Cmd.Process.Pid
	syscall.Kill(group, syscall.SIGTERM)
	select {
	case <-p.Done:
	case <-time.After(10 * time.Second):
	}
	syscall.Kill(group, syscall.SIGKILL)
	<-p.Done
}

// Until waits for ok to say yes, and fails the test at the deadline or when one
// of the processes ends first.
func Until(t testing.TB, what string, ok func() bool, alive ...*Process) {
	t.Helper()
	for end := time.Now().Add(Deadline); !ok(); time.Sleep(20 * time.Millisecond) {
		for _, p := range alive {
			select {
			case <-p.Done:
				t.Fatalf("%s ended before %s: %v", filepath.Base(p.Cmd.Path), what, p.Err)
			default:
			}
		}
		if time.Now().After(end) {
			t.Fatalf("waited %s in vain for %s", Deadline, what)
		}
	}
}

// Status returns the status code of a GET, 0 where nothing answers.
func Status(url string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0
	}
	resp, err := HTTPClient("").Do(req)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// FreeAddr returns a free loopback address that is the test's until its end. Its
// port is not one that the kernel gives to outgoing connections or to listeners on
// port 0, so that nobody takes it before the program that it is for; and a name of
// the kernel's keeps it from every other process, in whatever process: some seconds
// pass until the program listens, and a port that is not in use yet looks free.
func FreeAddr(t testing.TB) string {
	t.Helper()
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000))
		taken, err := net.Listen("unix", "@sallyport-e2e-"+addr)
		if err != nil {
			continue
		}
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			t.Cleanup(func() { taken.Close() })
			return addr
		}
		taken.Close()
	}
	t.Fatal("no port is free between 20000 and 32000")
	return ""
}

var binaries sync.Map // package path → func() (string, error)

// folders say where each binary is built from.
var folders = map[string]string{
	"sandboxd":              "./sandboxd",
	"sallyport":             "./owner",
	"sallyport-run":         "./owner/run",
	"sallyport-hub":         "./hub",
	"sallyport-dockerproxy": "./dockerproxy",
	"sallyport-egress":      "./egress",
}

// Binary builds a command of the root module (sandboxd, dockerproxy) once per
// test process and returns its path.
func Binary(t testing.TB, name string) string {
	t.Helper()
	once, _ := binaries.LoadOrStore(name, sync.OnceValues(func() (string, error) {
		root, err := tools.Root()
		if err != nil {
			return "", err
		}
		dir, err := os.MkdirTemp("", "sallyport-bin-")
		if err != nil {
			return "", err
		}
		os.Chmod(dir, 0o755) // other users start it too
		bin := filepath.Join(dir, name)
		cmd := exec.Command("go", "build", "-mod=vendor", "-buildvcs=false", "-o", bin, folders[name])
		cmd.Dir = root
		if name == "sallyport-login" { // a module of its own, without a vendor folder
			cmd = exec.Command("go", "build", "-mod=readonly", "-buildvcs=false", "-o", bin, ".")
			cmd.Dir = filepath.Join(root, "login")
		}
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
		cmd.Stderr = os.Stderr
		return bin, cmd.Run()
	}))
	bin, err := once.(func() (string, error))()
	if err != nil {
		t.Fatalf("building %s: %v", name, err)
	}
	return bin
}

// GoCache is the build cache of the user who runs the test, for commands that
// are given an environment of their own.
func GoCache(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

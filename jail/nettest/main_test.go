// Package nettest_test tries commands in a network of their own: as root that
// was given up, and as an ordinary uid from the start.
package nettest_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/jail"
)

// started says, in the environment, that this is the copy that runs the tests,
// and the uid for which root gives itself up.
const started = "NETTEST_STARTED"

// TestMain enters a user namespace as sandboxd does. Root gives itself up in a
// program without cgo only, so the tests are built once more without it; and
// started as root, they run a second time as an ordinary uid.
func TestMain(m *testing.M) {
	if os.Getenv(started) == "" {
		os.Exit(start())
	}
	if code, ended := jail.Reexec(); ended {
		os.Exit(code)
	}
	uid, err := strconv.Atoi(os.Getenv(started))
	if err != nil {
		panic(err)
	}
	if err := (jail.Workspace{UID: uid, GID: uid}).DropRoot(); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func start() int {
	if err := userNamespace(); err != nil {
		fmt.Fprintln(os.Stderr, "these tests need a user namespace:", err)
		if os.Getenv("CI") == "true" {
			return 1
		}
		return 0
	}
	dir, err := os.MkdirTemp("", "nettest") // go test's own folder is closed to others
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	os.Chmod(dir, 0o755)
	binary := filepath.Join(dir, "nettest")
	build := exec.Command("go", "test", "-c", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go test -c: %v\n%s", err, out)
		return 1
	}
	os.Chmod(binary, 0o755)
	if os.Geteuid() != 0 {
		return again(binary, nil)
	}
	if code := again(binary, &syscall.Credential{Uid: uint32(300000 + os.Getpid()), Gid: uint32(300000 + os.Getpid())}); code != 0 {
		return code
	}
	return again(binary, nil)
}

// userNamespace tries whether this machine allows one.
func userNamespace() error {
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET}
	return cmd.Run()
}

func again(binary string, as *syscall.Credential) int {
	var args []string
	for _, a := range os.Args[1:] {
		if !strings.HasPrefix(a, "-test.testlogfile=") && !strings.HasPrefix(a, "-test.outputdir") {
			args = append(args, a)
		}
	}
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), fmt.Sprint(started, "=", 200000+os.Getpid()))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode()
	case err != nil:
		panic(err)
	}
	return 0
}

// box is a jail whose commands have networks of their own.
func box(t *testing.T, container bool) (*jail.Jail, string) {
	t.Helper()
	dir := t.TempDir()
	os.Chmod(dir, 0o755)
	j, err := jail.New(jail.Config{Mode: jail.Full, Network: jail.Allowlist, InContainer: container, Writable: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j, dir
}

// run runs a shell line; proxy, if not nil, gets its listener.
func run(t *testing.T, j *jail.Jail, line string, proxy func(net.Listener)) (string, jail.Result) {
	t.Helper()
	var out, trouble bytes.Buffer
	c := jail.Command{Args: []string{"/bin/sh", "-c", line}, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, Stdout: &out, Stderr: &trouble,
		Timeout: 30 * time.Second, Listen: func() (io.Closer, error) {
			if proxy == nil {
				return nil, nil
			}
			l, err := net.Listen("tcp", "127.0.0.1:3128")
			if err == nil {
				proxy(l)
			}
			return l, err
		}}
	p, err := j.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	res := p.Wait()
	return out.String() + trouble.String(), res
}

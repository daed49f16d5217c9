package jail_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sallyport-dev/sallyport/jail"
)

// namespaceVariable makes the test program continue in a user namespace.
const namespaceVariable = "JAIL_TEST_NAMESPACE"

func inNamespace() bool { return os.Getenv(namespaceVariable) != "" && jail.CanPrivateMounts() == nil }

// What holds without private mounts and an own network holds with them, and each
// of their rules is missed when it is left out.
func TestInNamespace(t *testing.T) {
	if testing.Short() {
		t.Skip("make test runs it")
	}
	if inNamespace() {
		return
	}
	const again = "^(TestEachRuleIsMissed|TestNothingIsInherited|TestWorkingDirectoryIsTheOpenOne|TestOwnNetwork|TestToolsWithPrivateMounts|TestMountsOfTwoOwners|TestOwnersShareMemory|TestClosedTmpIsOpened|TestNothingIsLeft|TestSoak)$"
	if out, _ := insideAgain("^TestOwnNetwork$"); strings.Contains(out, cannot) {
		t.Skipf("not on this machine: it allows no user namespace:\n%s", out)
	}
	if out, err := insideAgain(again); err != nil || !strings.Contains(out, "\nPASS") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// insideAgain runs tests of this program in a user namespace.
func insideAgain(tests string) (string, error) {
	cmd := exec.Command("/proc/self/exe", "-test.v", "-test.run="+tests)
	cmd.Env = append(os.Environ(), namespaceVariable+"=1")
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.ECHILD) { // the reaper of an earlier test was first: what it printed must do
		err = nil
	}
	return string(out), err
}

const cannot = "no namespaces here"

func needNamespace(t *testing.T) {
	t.Helper()
	if os.Getenv(namespaceVariable) == "" {
		t.Skip("not by itself: part of TestInNamespace")
	}
	if err := jail.CanPrivateMounts(); err != nil {
		t.Skipf("not on this machine: %s: %v", cannot, err)
	}
}

// Each command has a loopback of its own, on which its servers answer it and
// nobody else, and the one listener that its starter opened there.
func TestOwnNetwork(t *testing.T) {
	needNamespace(t)
	j, _ := newJailWith(t, jail.Config{Mode: jail.Full, Network: jail.Allowlist, PrivateMounts: true})
	host := listen(t, "tcp", "127.0.0.1:0").Addr().(*net.TCPAddr).Port
	var way net.Listener
	script := fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/3128 && echo reached >&3 && read -r line <&3 && echo "$line"
		(exec 4<>/dev/tcp/127.0.0.1/%d) 2>/dev/null && echo host || echo alone`, host)
	served := make(chan string, 1)
	res, out, stderr := run(t, j, jail.Command{Args: []string{"/bin/bash", "-c", script}, Timeout: long, Listen: func() (io.Closer, error) {
		l, err := net.Listen("tcp", "127.0.0.1:3128")
		if err != nil {
			return nil, err
		}
		way = l
		go func() {
			c, err := l.Accept()
			if err != nil {
				served <- err.Error()
				return
			}
			defer c.Close()
			line, _ := bufio.NewReader(c).ReadString('\n')
			fmt.Fprintln(c, "answered")
			served <- line
		}()
		return l, nil
	}})
	if got := <-served; res.ExitCode != 0 || out != "answered\nalone\n" || got != "reached\n" {
		t.Errorf("%+v %q %q, served %q", res, out, stderr, got)
	}
	if _, err := way.Accept(); err == nil {
		t.Error("the listener outlives its command")
	}
	if c, err := net.Dial("tcp", "127.0.0.1:3128"); err == nil {
		c.Close()
		t.Error("the listener can be reached from outside")
	}
}

// What a bare machine lacks without private mounts works with them.
func TestToolsWithPrivateMounts(t *testing.T) {
	needNamespace(t)
	j, dir := newJailWith(t, jail.Config{Mode: jail.Full, Network: jail.Allowlist, PrivateMounts: true})
	for _, tool := range tools {
		switch tool.name {
		case "a pseudo terminal", "multiprocessing", "git", "gcc and make -j":
			t.Run(tool.name, func(t *testing.T) { tool.try(t, j, dir, true) })
		}
	}
}

// What is private to one command's owner is read-only to another's, also for what
// no Landlock right covers, and so is /tmp apart. Both may be kept between commands.
func TestMountsOfTwoOwners(t *testing.T) {
	needNamespace(t)
	private := t.TempDir()
	j, _ := newJailWith(t, jail.Config{Mode: jail.Full, Network: jail.None, PrivateMounts: true, Private: []string{private}})
	mine, other := filepath.Join(private, "mine"), filepath.Join(private, "other")
	for _, dir := range []string{mine, other} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	script := fmt.Sprintf("echo x > %s/x && echo x > /tmp/x && ls -A /tmp/x %s; chmod 0 %s; ls %s", mine, mine, other, other)
	for range 2 {
		_, out, stderr := run(t, j, jail.Command{Args: sh(script), Writable: []string{mine}})
		if out != fmt.Sprintf("/tmp/x\n\n%s:\nx\n", mine) || strings.Count(stderr, "\n") != 2 {
			t.Errorf("%q %q", out, stderr)
		}
	}
	if info, err := os.Stat(other); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	_, out, _ := run(t, j, jail.Command{Args: sh("ls -A /tmp | grep -c x; chmod 711 " + other + " && echo own"), Writable: []string{other}})
	if out != "0\nown\n" {
		t.Errorf("the other's: %q", out)
	}
}

// What commands leave in /tmp and /dev/shm is memory that no process holds: all owners
// together fill no more than one could. Who comes then has little room, not none, and
// what was removed is everybody's again.
func TestOwnersShareMemory(t *testing.T) {
	needNamespace(t)
	private := t.TempDir()
	j, _ := newJailWith(t, jail.Config{Mode: jail.Full, Network: jail.None, PrivateMounts: true, Private: []string{private}})
	as := func(owner, script string) string {
		dir := filepath.Join(private, owner)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		_, out, stderr := run(t, j, jail.Command{Args: sh(script), Writable: []string{dir}, Timeout: long})
		return out + stderr
	}
	const fill, free = "head -c 150M /dev/zero >%[1]s/x && echo filled; ls -A %[1]s | grep -c '^[xy]$'", "df -m --output=size %[1]s | tail -1 | tr -d ' '"
	for third, at := range []string{"/tmp", "/dev/shm"} {
		if got := as("a", fmt.Sprintf(fill, at)); got != "filled\n1\n" {
			t.Errorf("%s of the first: %q", at, got)
		}
		if got := as("b", fmt.Sprintf(fill, at)); !strings.Contains(got, "No space left on device") || strings.Contains(got, "filled") {
			t.Errorf("%s of the second: %q", at, got)
		}
		if got := as(fmt.Sprint("c", third), fmt.Sprintf("ls -A %[1]s | grep -c x; echo little >%[1]s/y && cat %[1]s/y; "+free, at)); got != "0\nlittle\n4\n" {
			t.Errorf("%s of the third: %q", at, got)
		}
		as("a", "rm "+at+"/x")
		if got := as("b", fmt.Sprintf(fill, at)); got != "filled\n1\n" {
			t.Errorf("%s after room was made: %q", at, got)
		}
	}
}

// A command that closes /tmp, below which the workspace or HOME may lie, takes nothing
// from the next one.
func TestClosedTmpIsOpened(t *testing.T) {
	needNamespace(t)
	private := filepath.Join(t.TempDir(), "own")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	j, _ := newJailWith(t, jail.Config{Mode: jail.Full, Network: jail.None, PrivateMounts: true, Private: []string{filepath.Dir(private)}})
	for range 2 {
		_, out, stderr := run(t, j, jail.Command{Args: sh("cd " + private + " && echo x >/tmp/f && chmod 0 /tmp /dev/shm && echo closed"), Writable: []string{private}})
		if out != "closed\n" {
			t.Errorf("%q %q", out, stderr)
		}
	}
}

package jail_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/jail"
	"github.com/sallyport-dev/sallyport/jail/jailtest"
)

func TestMain(m *testing.M) {
	actAsChild()
	if os.Getenv(namespaceVariable) != "" {
		if code, ended := jail.Reexec(); ended {
			os.Exit(code)
		}
	}
	jailtest.Main(m)
}

// long is how long a test waits for what must come: the machine may be busy.
const long = time.Minute

// patience is the timeout of a command that shall run into it once it has begun. A
// test for which it had not begun tries again with more.
const patience = 2 * time.Second

func newJail(t *testing.T, mode jail.Mode) (*jail.Jail, string) {
	t.Helper()
	return newJailWith(t, jail.Config{Mode: mode, Network: jail.None})
}

// contained says that these tests run in a locked container, whose TMPDIR is
// not among the paths that a container's commands may always write.
var contained = os.Getenv("SALLYPORT_TEST_CONTAINER") != ""

func newJailWith(t *testing.T, cfg jail.Config) (*jail.Jail, string) {
	t.Helper()
	cfg.InContainer = cfg.InContainer || contained
	cfg.PrivateMounts = cfg.PrivateMounts || cfg.Mode == jail.Full && inNamespace()
	if cfg.Grace == 0 {
		cfg.Grace = 200 * time.Millisecond // what does not end by itself need not hold up a test
	}
	dir := t.TempDir()
	cfg.Writable = append([]string{dir}, cfg.Writable...)
	j, err := jail.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j, dir
}

// inBothModes runs a test of what every jail promises.
func inBothModes(t *testing.T, test func(t *testing.T, j *jail.Jail, dir string)) {
	for _, mode := range []jail.Mode{jail.Group, jail.Full} {
		t.Run(string(mode), func(t *testing.T) {
			j, dir := newJail(t, mode)
			test(t, j, dir)
		})
	}
}

func sh(script string) []string { return []string{"/bin/sh", "-c", script} }

func run(t *testing.T, j *jail.Jail, c jail.Command) (res jail.Result, stdout, stderr string) {
	t.Helper()
	var o, e bytes.Buffer
	c.Stdout, c.Stderr = &o, &e
	if c.Env == nil {
		c.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	}
	res, err := j.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return res, o.String(), e.String()
}

func TestExitCodesAndStreams(t *testing.T) { inBothModes(t, exitCodesAndStreams) }

func exitCodesAndStreams(t *testing.T, j *jail.Jail, _ string) {
	res, out, err := run(t, j, jail.Command{Args: sh("echo out; echo err >&2; exit 7")})
	if res.ExitCode != 7 || res.Signal != "" || res.TimedOut || res.Canceled || res.OutputHeld || out != "out\n" || err != "err\n" {
		t.Errorf("%+v %q %q", res, out, err)
	}
	res, _, _ = run(t, j, jail.Command{Args: sh("kill -TERM $$")})
	if res.ExitCode != -1 || res.Signal != "SIGTERM" {
		t.Errorf("%+v", res)
	}
}

// A file is the command's own stdout, and stays the caller's too.
func TestOutputIntoAFile(t *testing.T) { inBothModes(t, outputIntoAFile) }

func outputIntoAFile(t *testing.T, j *jail.Jail, dir string) {
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	want, err := out.Stat()
	if err != nil {
		t.Fatal(err)
	}
	script := "stat -Lc %i /proc/self/fd/1"
	if res, err := j.Run(t.Context(), jail.Command{Args: sh(script), Stdout: out}); err != nil || res.ExitCode != 0 {
		t.Fatal(res, err)
	}
	if _, err := out.WriteString("and on\n"); err != nil {
		t.Error(err)
	}
	got, err := os.ReadFile(out.Name())
	if inode := want.Sys().(*syscall.Stat_t).Ino; string(got) != fmt.Sprintf("%d\nand on\n", inode) {
		t.Errorf("%q, %v; the file is %d", got, err, inode)
	}
}

func TestProgramThatDoesNotStart(t *testing.T) { inBothModes(t, programThatDoesNotStart) }

func programThatDoesNotStart(t *testing.T, j *jail.Jail, dir string) {
	plain := filepath.Join(dir, "plain")
	os.WriteFile(plain, []byte("x"), 0o644)
	for path, want := range map[string]string{dir + "/none": "no such file", plain: "permission denied", "sh": "absolute"} {
		if _, err := j.Run(t.Context(), jail.Command{Args: []string{path}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A command gets three descriptors, the given environment and nothing else.
func TestNothingIsInherited(t *testing.T) { inBothModes(t, nothingIsInherited) }

func nothingIsInherited(t *testing.T, j *jail.Jail, dir string) {
	leak, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	clearCloexec(t, leak)
	t.Setenv("SECRET", "in the server's environment")
	_, out, _ := run(t, j, jail.Command{Args: []string{"/bin/ls", "/proc/self/fd"}})
	if got := strings.Fields(out); len(got) != 4 { // ls itself opens one
		t.Errorf("descriptors %q", got)
	}
	_, out, _ = run(t, j, jail.Command{Args: []string{"/usr/bin/env"}, Env: []string{"A=1"}})
	if out != "A=1\n" {
		t.Errorf("environment %q", out)
	}
	_, out, _ = run(t, j, jail.Command{Args: sh("readlink /proc/self/fd/0; cat | wc -c")})
	if out != "/dev/null\n0\n" {
		t.Errorf("stdin %q", out)
	}
}

func TestWorkingDirectoryIsTheOpenOne(t *testing.T) { inBothModes(t, workingDirectoryIsTheOpenOne) }

func workingDirectoryIsTheOpenOne(t *testing.T, j *jail.Jail, dir string) {
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, "sub"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// Renamed after it was opened: the path no longer says which it is.
	if err := os.Rename(filepath.Join(dir, "sub"), filepath.Join(dir, "other")); err != nil {
		t.Fatal(err)
	}
	_, out, _ := run(t, j, jail.Command{Args: []string{"/bin/pwd"}, Dir: f})
	if out != filepath.Join(dir, "other")+"\n" {
		t.Errorf("%q", out)
	}
}

func TestTimeoutCancelAndKill(t *testing.T) { inBothModes(t, timeoutCancelAndKill) }

func timeoutCancelAndKill(t *testing.T, j *jail.Jail, _ string) {
	var res jail.Result
	out := ""
	for timeout := patience; out == "" && timeout < 2*long; timeout *= 4 {
		res, out, _ = run(t, j, jail.Command{Args: sh("echo begun; sleep 900"), Timeout: timeout})
	}
	if !res.TimedOut || res.Signal != "SIGTERM" || res.ExitCode != -1 || out != "begun\n" {
		t.Errorf("timeout: %+v %q", res, out)
	}
	ctx, cancel := context.WithCancel(t.Context())
	p, err := j.Start(ctx, jail.Command{Args: sh("sleep 900")})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if res := p.Wait(); !res.Canceled || res.TimedOut || res.Signal != "SIGTERM" {
		t.Errorf("cancel: %+v", res)
	}
	p, err = j.Start(t.Context(), jail.Command{Args: sh("sleep 900")})
	if err != nil {
		t.Fatal(err)
	}
	p.Kill()
	if res := p.Wait(); res.Canceled || res.TimedOut || res.Signal != "SIGKILL" {
		t.Errorf("kill: %+v", res)
	}
}

// The children in the group die with the command, so its output ends too.
func TestBackgroundChildrenDieAtExit(t *testing.T) { inBothModes(t, backgroundChildrenDieAtExit) }

func backgroundChildrenDieAtExit(t *testing.T, j *jail.Jail, dir string) {
	res, _, _ := run(t, j, jail.Command{Args: sh("sleep 900 & echo $! > " + dir + "/pid; exit 0"), Timeout: long})
	if res.TimedOut || res.ExitCode != 0 || res.OutputHeld {
		t.Errorf("%+v", res)
	}
	gone(t, filepath.Join(dir, "pid"))
}

// What leaves the group is what this mode loses. It may hold the output, but
// only for the bound.
func TestGroupModeBoundsHeldOutput(t *testing.T) {
	j, dir := newJail(t, jail.Group)
	var res jail.Result
	for timeout := patience; !exists(dir, "pid") && timeout < 2*long; timeout *= 4 {
		res, _, _ = run(t, j, jail.Command{Args: sh("setsid sh -c 'echo $$ > " + dir + "/new; mv " + dir + "/new " + dir + "/pid; exec sleep 900' & sleep 900"), Timeout: timeout})
	}
	if !res.TimedOut || !res.OutputHeld {
		t.Errorf("%+v", res)
	}
	kill(t, filepath.Join(dir, "pid"))
}

func TestCloseKillsAndRefuses(t *testing.T) { inBothModes(t, closeKillsAndRefuses) }

func closeKillsAndRefuses(t *testing.T, j *jail.Jail, dir string) {
	p, err := j.Start(t.Context(), jail.Command{Args: sh("echo $$ > " + dir + "/pid; exec sleep 900")})
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { b, _ := os.ReadFile(dir + "/pid"); return len(b) > 0 })
	j.Close()
	gone(t, dir+"/pid")
	p.Wait()
	if _, err := j.Start(t.Context(), jail.Command{Args: sh("true")}); err == nil {
		t.Error("a closed jail starts commands")
	}
}

// What belongs to the system is not given away, also not by a slip. (Asked as
// root for the real ones, a broken rule would break the machine.)
func TestSystemDirectoriesAreKept(t *testing.T) {
	for _, path := range []string{"/etc", "/etc/x", "/usr/local", "/bin", "/var", "/var/tmp", "/var/lib", "/tmp", "/root", "/home", "/run/x", "/proc/1", "/srv", "/opt"} {
		if !jail.System(path) {
			t.Errorf("%s may be given away", path)
		}
	}
	for _, path := range []string{"/workspace", "/srv/work", "/home/me", "/root/clone/workspace", "/tmp/x", "/var/lib/sallyport", "/data", "/etcetera", "/opt/work"} {
		if jail.System(path) {
			t.Errorf("%s may not be given away", path)
		}
	}
}

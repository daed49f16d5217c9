package jailtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/jail"
	"github.com/sallyport-dev/sallyport/jail/jailtest"
)

// These tests start as root, which the jail's others give up at once. Each
// starts this program again as a server that is told to prepare a workspace.
func TestMain(m *testing.M) {
	if dir := os.Getenv("ROOT_TEST_WORKSPACE"); dir != "" {
		if group := os.Getenv("ROOT_TEST_CGROUP"); group != "" {
			if err := os.WriteFile(group+"/cgroup.procs", []byte("0"), 0); err != nil {
				panic(err)
			}
		}
		enter()
		serve(dir)
	}
	if os.Geteuid() != 0 {
		fmt.Println("these tests start as root: nothing to do here")
		os.Exit(0)
	}
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// answer is what the server says about itself and its commands.
type answer struct {
	Error     string
	Workspace jail.Workspace
	UIDs      []int
	Groups    []int
	Outputs   []string
	Private   string // why commands have no private mounts
	Left      map[string]int

	Start, PerCommand time.Duration
}

func serve(dir string) {
	var a answer
	if err := a.run(dir); err != nil {
		a.Error = err.Error()
	}
	json.NewEncoder(os.Stdout).Encode(a)
	os.Exit(0)
}

func (a *answer) run(dir string) (err error) {
	if a.Workspace, err = jail.Prepare(dir); err != nil {
		return err
	}
	if err := a.Workspace.DropRoot(); err != nil {
		return err
	}
	r, e, s := unix.Getresuid()
	a.UIDs = []int{r, e, s}
	if a.Groups, err = os.Getgroups(); err != nil {
		return err
	}
	work, err := os.Open(a.Workspace.Path)
	if err != nil {
		return err
	}
	cfg := jail.Config{Mode: jail.Full, Network: jail.None, Writable: []string{a.Workspace.Path}, PrivateMounts: true}
	if os.Getenv("ROOT_TEST_LEFT") != "" {
		cfg.Grace = 200 * time.Millisecond // what ignores SIGTERM need not hold up a test
	}
	if os.Getenv("ROOT_TEST_MODE") == "group" {
		cfg.Mode, cfg.PrivateMounts = jail.Group, false
	}
	if err := jail.CanPrivateMounts(); err != nil {
		a.Private, cfg.PrivateMounts = err.Error(), false
	}
	began := time.Now()
	j, err := jail.New(cfg)
	if err != nil {
		return err
	}
	defer j.Close()
	a.Start = time.Since(began)
	if os.Getenv("ROOT_TEST_LEFT") != "" {
		return a.left(j)
	}
	if a.PerCommand, err = perCommand(j, work); err != nil {
		return err
	}
	for script := range strings.SplitSeq(os.Getenv("ROOT_TEST_COMMANDS"), ";;") {
		var out bytes.Buffer
		p, err := j.Start(context.Background(), jail.Command{Args: []string{"/bin/sh", "-c", script}, Dir: work, Stdout: &out, Timeout: 3 * time.Minute,
			Env: []string{"HOME=" + a.Workspace.Path, "GOCACHE=" + a.Workspace.Path + "/.cache", "TMPDIR=" + a.Workspace.Path, "GOTOOLCHAIN=local", "PATH=/usr/local/go/bin:/usr/bin:/bin"}})
		if err != nil {
			return err
		}
		a.Outputs = append(a.Outputs, fmt.Sprintf("%d %s", p.Wait().ExitCode, strings.TrimSpace(out.String())))
	}
	return nil
}

// left counts what is left of commands after each of their ends.
func (a *answer) left(j *jail.Jail) error {
	a.Left = map[string]int{}
	for _, end := range jailtest.Ends {
		pids, err := jailtest.Left(j, end)
		if err != nil {
			return fmt.Errorf("%s: %w", end, err)
		}
		a.Left[end] = len(pids)
	}
	return nil
}

// perCommand is the median time of a shell that does nothing.
func perCommand(j *jail.Jail, work *os.File) (time.Duration, error) {
	var took []time.Duration
	for range 41 {
		began := time.Now()
		p, err := j.Start(context.Background(), jail.Command{Args: []string{"/bin/sh", "-c", ":"}, Dir: work})
		if err != nil {
			return 0, err
		}
		p.Wait()
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// ask starts a server over a workspace.
func ask(t *testing.T, dir string, commands ...string) (a answer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "ROOT_TEST_WORKSPACE="+dir, "ROOT_TEST_COMMANDS="+strings.Join(commands, ";;"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err := errors.Join(err, json.Unmarshal(out, &a)); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return a
}

// public is a directory that everybody can enter.
func public(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "jail-root-")
	if err := errors.Join(err, os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func mkdir(t *testing.T, path string, uid, gid int) string {
	t.Helper()
	if err := errors.Join(os.MkdirAll(path, 0o755), os.Chown(path, uid, gid)); err != nil {
		t.Fatal(err)
	}
	return path
}

// Root is given up for the owner; where that is root, the directory itself is
// given away, and group 0 never stays.
func TestRootIsGivenUp(t *testing.T) {
	for _, c := range []struct{ uid, gid, wantUID, wantGID int }{
		{64801, 64802, 64801, 64802},
		{0, 0, 64321, 64321},
		{64801, 0, 64801, 64321},
		{0, 64802, 64321, 64802},
	} {
		dir := mkdir(t, filepath.Join(public(t), "work"), c.uid, c.gid)
		inside := mkdir(t, filepath.Join(dir, "inside"), 64803, 64803) // root's own would be refused
		a := ask(t, dir, "id -u", "id -g", "id -G", "touch x && echo written")
		want := []string{fmt.Sprintf("0 %d", c.wantUID), fmt.Sprintf("0 %d", c.wantGID), fmt.Sprintf("0 %d", c.wantGID), "0 written"}
		if a.Error != "" || fmt.Sprint(a.Outputs) != fmt.Sprint(want) || len(a.Groups) != 0 || fmt.Sprint(a.UIDs) != fmt.Sprint([]int{c.wantUID, c.wantUID, c.wantUID}) {
			t.Errorf("%+v: %+v", c, a)
		}
		given := strings.Contains(strings.Join(a.Workspace.Notices, "\n"), "belonged to root")
		if given != (c.uid == 0) {
			t.Errorf("%+v: notices %q", c, a.Workspace.Notices)
		}
		info, err := os.Stat(inside)
		if err != nil || info.Sys().(*syscall.Stat_t).Uid != 64803 {
			t.Errorf("the contents changed hands: %v %v", info, err)
		}
	}
}

// Root's own checkout is not taken: git would be dead in it, for root too. Nothing
// of it has changed then. Empty, or with files of the owner's, it is served.
func TestRootsFilesAreRefused(t *testing.T) {
	dir := mkdir(t, filepath.Join(public(t), "work"), 0, 0)
	mkdir(t, filepath.Join(dir, ".git"), 0, 0)
	a := ask(t, dir, "true")
	for _, words := range []string{dir, "such as .git", "another directory", "chown -R 64321:64321", "git clone"} {
		if !strings.Contains(a.Error, words) {
			t.Errorf("%q lacks %q", a.Error, words)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("the directory changed hands: %v %v", info, err)
	}
	if err := os.Chown(filepath.Join(dir, ".git"), 64321, 64321); err != nil {
		t.Fatal(err)
	}
	if a := ask(t, dir, "true"); a.Error != "" {
		t.Errorf("the twin: %s", a.Error)
	}
}

// A workspace that its owner cannot reach by name is bound to a path that he
// can, in a mount namespace of the server's own; tools that walk there work.
func TestWorkspaceThatOnlyRootCanEnter(t *testing.T) {
	closed := filepath.Join(public(t), "closed")
	dir := mkdir(t, filepath.Join(closed, "clone", "workspace"), 0, 0)
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	mkdir(t, filepath.Join(dir, "sub"), 64321, 64321)
	a := ask(t, dir, "pwd", "cd sub && pwd", "git init -q repo && echo ok", "mkdir m && cd m && printf 'module m\\n' > go.mod && printf 'package main\\nfunc main() {}\\n' > main.go && go list . | sed s,^m,ok,",
		"echo 'console.log(require(\"fs\").realpathSync(\".\"))' > a.js && node a.js")
	const bound = "/run/sallyport/workspace"
	want := []string{"0 " + bound, "0 " + bound + "/sub", "0 ok", "0 ok", "0 " + bound}
	if a.Error != "" || a.Workspace.Path != bound || fmt.Sprint(a.Outputs) != fmt.Sprint(want) {
		t.Errorf("%+v", a)
	}
	for _, said := range []string{bound, "belonged to root"} {
		if !strings.Contains(strings.Join(a.Workspace.Notices, "\n"), said) {
			t.Errorf("%s: it is not said: %q", said, a.Workspace.Notices)
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	if strings.Contains(string(mounts), bound) {
		t.Error("the mount is visible outside the server")
	}
}

// Root without the right to mount is refused, with the ways out.
func TestWorkspaceThatCannotBeBound(t *testing.T) {
	closed := filepath.Join(public(t), "closed")
	dir := mkdir(t, filepath.Join(closed, "workspace"), 64801, 64801)
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SALLYPORT_WORKSPACE_BOUND", "elsewhere") // as if it had been tried
	a := ask(t, dir, "true")
	for _, want := range []string{"64801", "cannot enter", "chmod o+x"} {
		if !strings.Contains(a.Error, want) {
			t.Errorf("%q is not in %q", want, a.Error)
		}
	}
}

// An account that already holds more processes than a whole budget still runs
// commands, and two fork bombs at once do not stop the server.
func TestBusyAccountAndTwoBombs(t *testing.T) {
	const uid = 64803
	dir := mkdir(t, filepath.Join(public(t), "work"), uid, uid)
	busy := exec.Command("/bin/sh", "-c", "for i in $(seq 200); do sleep 600 & done; echo started; wait")
	busy.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}, Setpgid: true}
	said, err := busy.StdoutPipe()
	if err := errors.Join(err, busy.Start()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		syscall.Kill(-busy.Process.Pid, syscall.SIGKILL)
		busy.Wait()
	}()
	if _, err := said.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	const bomb = "f() { f | f & }; (f) 2>/dev/null; (f) 2>/dev/null; sleep 2; true"
	a := ask(t, dir, "echo a | cat | cat", "for i in $(seq 60); do sleep 1 & done; echo ok", bomb, "echo alive | cat")
	if a.Error != "" || len(a.Outputs) != 4 || a.Outputs[0] != "0 a" || a.Outputs[1] != "0 ok" || a.Outputs[3] != "0 alive" {
		t.Errorf("%+v", a)
	}
}

// A jail is not built for root.
func TestRootIsRefused(t *testing.T) {
	if _, err := jail.New(jail.Config{Mode: jail.Group}); err == nil || !strings.Contains(err.Error(), "root") {
		t.Errorf("%v", err)
	}
}

// In a cgroup with little room, such as a unit's, the server keeps its threads
// through fork bombs: the budget of commands comes from the cgroup's limit,
// wherever on the path it is set.
func TestTightCgroup(t *testing.T) {
	group := "/sys/fs/cgroup/pids"
	if _, err := os.Stat(group); err != nil {
		group = "/sys/fs/cgroup"
	}
	group = filepath.Join(group, fmt.Sprintf("jail-test-%d", os.Getpid()))
	inner := filepath.Join(group, "inner")
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skipf("not on this machine: no cgroup can be made here: %v", err)
	}
	t.Cleanup(func() { os.Remove(group) })
	if err := os.WriteFile(group+"/pids.max", []byte("128"), 0); err != nil {
		t.Skipf("not on this machine: cgroups here do not limit processes: %v", err)
	}
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(inner) })
	dir := mkdir(t, filepath.Join(public(t), "work"), 64804, 64804)
	const bomb = "f() { f | f & }; (f) 2>/dev/null; (f) 2>/dev/null; sleep 1; true"
	t.Setenv("ROOT_TEST_CGROUP", inner)
	a := ask(t, dir, "for i in $(seq 60); do sleep 1 & done; echo ok", bomb, bomb, bomb, "echo alive | cat")
	if a.Error != "" || len(a.Outputs) != 5 || a.Outputs[0] != "0 ok" || a.Outputs[4] != "0 alive" {
		t.Errorf("%+v", a)
	}
}

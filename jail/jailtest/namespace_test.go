package jailtest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/jail"
	"github.com/sallyport-dev/sallyport/jail/policy"
)

// built is where server was built.
var built string

// server is this test program built as the products are, without cgo.
var server = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "jail-server-")
	if err := errors.Join(err, os.Chmod(dir, 0o755)); err != nil {
		return "", err
	}
	built = dir
	cmd := exec.Command("go", "test", "-c", "-o", dir+"/server", ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return dir + "/server", nil
})

// machine is where a server starts.
type machine struct {
	name    string
	account int  // 0: as root
	denied  bool // no further user namespace is allowed
	private bool // commands have mounts of their own there
	plain   bool // the server does not ask for a namespace
}

var machines = []machine{
	{"root", 0, false, true, false},
	{"an ordinary account", 64811, false, true, false},
	{"an ordinary account without user namespaces", 64812, true, false, false},
}

// enter makes this process the server's machine, and continues.
func enter() {
	if os.Getenv("MACHINE_DENIED") != "" {
		os.Unsetenv("MACHINE_DENIED")
		if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
			panic(err)
		}
	}
	if id := os.Getenv("MACHINE_ACCOUNT"); id != "" {
		os.Unsetenv("MACHINE_ACCOUNT")
		var uid int
		fmt.Sscan(id, &uid)
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setresgid(uid, uid, uid), syscall.Setresuid(uid, uid, uid)); err != nil {
			panic(err)
		}
		panic(syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
	}
	if os.Getenv("MACHINE_REEXEC") != "" {
		if code, ended := jail.Reexec(); ended {
			os.Exit(code)
		}
	}
}

// on starts a server over a workspace on a machine.
func (m machine) on(t *testing.T, dir string, commands ...string) (a answer) {
	t.Helper()
	self, err := server()
	if err != nil {
		t.Fatal(err)
	}
	out, err := m.command(self, dir, commands...).Output()
	if err := errors.Join(err, json.Unmarshal(out, &a)); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return a
}

// Outside the workspace the account's own files keep their modes, times, groups
// and attributes where commands have private mounts. Where they cannot have them,
// the same commands succeed: that is what the namespace is for.
func TestPrivateMounts(t *testing.T) {
	for _, m := range machines {
		t.Run(m.name, func(t *testing.T) {
			account := m.account
			if account == 0 {
				account = 64813
			}
			base := public(t)
			dir := mkdir(t, filepath.Join(base, "work"), account, account)
			beside := mkdir(t, filepath.Join("/var/lib", filepath.Base(base)), account, account) // not below /tmp, which is hidden
			t.Cleanup(func() { os.RemoveAll(beside) })
			mine := filepath.Join(beside, "mine")
			if err := errors.Join(os.WriteFile(mine, []byte("x"), 0o600), os.Chown(mine, account, account)); err != nil {
				t.Fatal(err)
			}
			a := m.on(t, dir, "chmod 0666 "+mine, "touch -d 2001-01-01 "+mine, "chgrp $(id -g) "+mine,
				"touch inside && chmod 700 inside && echo ok", "echo x > /tmp/x && cat /tmp/x", "pwd", "ls /tmp | grep -v jail-root || true",
				"exec 3<>/dev/ptmx && echo pty", "touch ../beside || echo held")
			if a.Error != "" {
				t.Fatal(a.Error)
			}
			if (a.Private == "") != m.private {
				t.Errorf("private mounts: %q", a.Private)
			}
			for i, command := range []string{"chmod", "touch", "chgrp"} {
				if held := strings.HasPrefix(a.Outputs[i], "1"); held != m.private {
					t.Errorf("%s outside: %q", command, a.Outputs[i])
				}
			}
			want := []string{"0 ok", "0 x", "0 " + dir, "0 x", "0 pty", "0 held"}
			if !m.private {
				want = []string{"0 ok", a.Outputs[4], "0 " + dir, a.Outputs[6], "2 ", "0 held"}
			}
			if got := a.Outputs[3:]; fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%q, want %q", got, want)
			}
			if info, err := os.Stat(mine); err != nil || (info.Mode() == 0o600) != m.private {
				t.Errorf("%v %v", info.Mode(), err)
			}
			t.Logf("start %v, a command %v", a.Start.Round(time.Millisecond), a.PerCommand.Round(10*time.Microsecond))
		})
	}
}

// An account that the machine has no name for has one in its commands, so that
// programs that refuse to work for a stranger work. Where commands have no mounts
// of their own the same programs refuse.
func TestAccountHasAName(t *testing.T) {
	for _, m := range machines {
		t.Run(m.name, func(t *testing.T) {
			account := m.account
			if account == 0 {
				account = 64818
			}
			dir := mkdir(t, filepath.Join(public(t), "work"), account, account)
			a := m.on(t, dir, "whoami; id -gn; getent passwd $(id -u) | cut -d: -f6", "command -v ssh-keygen >/dev/null || { echo made; exit; }; ssh-keygen -q -t ed25519 -N '' -f key && echo made",
				"grep -c ^root: /etc/passwd", "echo x >>/etc/passwd; chmod 666 /etc/passwd /etc/group; tail -n 1 /etc/passwd | cut -d: -f3", "ls -A /tmp | grep -v jail-root")
			if a.Error != "" {
				t.Fatal(a.Error)
			}
			want := []string{"0 sandbox\nsandbox\n" + dir, "0 made", "0 1", fmt.Sprintf("0 %d", account), "1 "}
			if m.private && fmt.Sprint(a.Outputs) != fmt.Sprint(want) {
				t.Errorf("%q, want %q", a.Outputs, want)
			}
			if !m.private && (strings.Contains(a.Outputs[0], "sandbox") || len(a.Outputs[1]) > 2 && exists(filepath.Join(dir, "key"))) {
				t.Errorf("the twin: %q", a.Outputs)
			}
			if raw, err := os.ReadFile("/etc/passwd"); err != nil || strings.Contains(string(raw), fmt.Sprint(account)) {
				t.Errorf("the machine's own: %v", err)
			}
		})
	}
}

// An account that grows beside a running command takes nothing from its budget
// where commands are counted in a namespace of their own; elsewhere the same
// command can start nothing more.
func TestAccountThatGrows(t *testing.T) {
	for _, m := range append(slices.Clip(machines[:2]), machine{"without a namespace", 64815, false, false, true}) {
		t.Run(m.name, func(t *testing.T) {
			account := m.account
			if account == 0 {
				account = 64814
			}
			dir := mkdir(t, filepath.Join(public(t), "work"), account, account)
			answers := make(chan answer, 1)
			go func() {
				defer close(answers) // also where it has failed
				answers <- m.on(t, dir, "touch started; while ! test -e grown; do sleep .02; done; (for i in 1 2 3 4 5 6 7 8; do sleep .1 & done; wait; echo forked) 2>/dev/null")
			}()
			for end := time.Now().Add(time.Minute); !exists(filepath.Join(dir, "started")); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the command does not start")
				}
			}
			more := exec.Command("/bin/sh", "-c", "for i in $(seq "+fmt.Sprint(policy.DefaultTasks()+100)+"); do sleep 600 & done; echo grown; wait")
			more.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(account), Gid: uint32(account)}, Setpgid: true}
			said, err := more.StdoutPipe()
			if err := errors.Join(err, more.Start()); err != nil {
				t.Fatal(err)
			}
			defer func() {
				syscall.Kill(-more.Process.Pid, syscall.SIGKILL)
				more.Wait()
			}()
			if _, err := said.Read(make([]byte, 8)); err != nil {
				t.Fatal(err)
			}
			mkdir(t, filepath.Join(dir, "grown"), account, account)
			a := <-answers
			if forked := strings.HasSuffix(strings.Join(a.Outputs, " "), "forked"); a.Error != "" || forked != m.private {
				t.Errorf("%+v", a)
			}
		})
	}
}

// What the machine mounts while the server lives does not arrive in the commands'
// mounts, where it would be writable. The workspace's own file is the twin.
func TestLaterMounts(t *testing.T) {
	for _, m := range machines[:2] {
		t.Run(m.name, func(t *testing.T) {
			account := m.account
			if account == 0 {
				account = 64816
			}
			dir := mkdir(t, filepath.Join(public(t), "work"), account, account)
			at := filepath.Join("/var/lib", filepath.Base(filepath.Dir(dir)))
			mkdir(t, at, account, account)
			later := mkdir(t, filepath.Join(at, "later"), account, account)
			err := errors.Join(unix.Mount("tmpfs", at, "tmpfs", 0, "mode=755"), unix.Mount("", at, "", unix.MS_SHARED, ""),
				os.Mkdir(later, 0o755), os.Chown(later, account, account))
			t.Cleanup(func() {
				unix.Unmount(later, unix.MNT_DETACH)
				unix.Unmount(at, unix.MNT_DETACH)
				os.RemoveAll(at)
			})
			if err != nil {
				t.Fatal(err)
			}
			mine := filepath.Join(later, "mine")
			answers := make(chan answer, 1)
			go func() {
				defer close(answers) // also where it has failed
				answers <- m.on(t, dir, "touch started; while ! test -e mounted; do sleep .02; done; chmod 666 "+mine+
					" 2>/dev/null; touch inside; chmod 640 inside")
			}()
			for end := time.Now().Add(time.Minute); !exists(filepath.Join(dir, "started")); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the command does not start")
				}
			}
			if err := errors.Join(unix.Mount("tmpfs", later, "tmpfs", 0, "mode=755"), os.WriteFile(mine, nil, 0o600),
				os.Chown(mine, account, account)); err != nil {
				t.Fatal(err)
			}
			mkdir(t, filepath.Join(dir, "mounted"), account, account)
			if a := <-answers; a.Error != "" {
				t.Fatal(a.Error)
			}
			if info, err := os.Stat(mine); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("a file of a later mount: %v, %v", info, err)
			}
			if info, err := os.Stat(filepath.Join(dir, "inside")); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("the workspace's own file: %v, %v", info, err)
			}
		})
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

package jailtest_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/procfs"
	"github.com/sallyport-dev/sallyport/jail/jailtest"
)

// inner is the process that serves: the child in the namespace, or pid itself.
func inner(pid int, path string) int {
	all, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, name := range all {
		raw, _ := os.ReadFile(name)
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
		if procfs.Field(raw, "PPid:") == pid && bytes.HasPrefix(line, append([]byte(path), 0)) {
			child, _ := strconv.Atoi(strings.Split(name, "/")[2])
			return child
		}
	}
	return pid
}

// kill -9 of a server, or of the parent that holds its namespace, ends everything
// that its commands started, what left their session too. A process group has no
// warden: there the same kill leaves most of it alive.
func TestKilledServerLeavesNothing(t *testing.T) {
	self, err := server()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range machines {
		for _, c := range []struct {
			name          string
			group, parent bool
		}{{"server", false, false}, {"its parent", false, true}, {"server, a process group", true, false}} {
			t.Run(m.name+"/"+c.name, func(t *testing.T) {
				account := m.account
				if account == 0 {
					account = 64816
				}
				number := jailtest.Number()
				dir := mkdir(t, filepath.Join(public(t), "work"), account, account)
				cmd := m.command(self, dir, strings.ReplaceAll(jailtest.Leavers+"exec sleep NAP", "NAP", number))
				if c.group {
					cmd.Env = append(cmd.Env, "ROOT_TEST_MODE=group")
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					for _, pid := range jailtest.Running(number) {
						syscall.Kill(pid, syscall.SIGKILL)
					}
					cmd.Process.Kill()
					cmd.Wait()
				})
				until(t, "everything runs", func() bool { return jailtest.Started(number) })
				victim := cmd.Process.Pid
				if !c.parent {
					victim = inner(victim, self)
				}
				began := time.Now()
				syscall.Kill(victim, syscall.SIGKILL)
				if c.group {
					cmd.Wait()
					time.Sleep(300 * time.Millisecond)
					if left := jailtest.Running(number); len(left) < 3 {
						t.Errorf("the twin: %d are left", len(left))
					}
					return
				}
				until(t, "nothing is left", func() bool { return len(jailtest.Running(number)) == 0 })
				t.Logf("%v after the kill nothing is left", time.Since(began).Round(time.Millisecond))
			})
		}
	}
}

// Whatever ends a command, nothing of it is left on any machine when that is said;
// a process group's end leaves what left the group.
func TestNothingIsLeft(t *testing.T) {
	for _, m := range machines {
		t.Run(m.name, func(t *testing.T) {
			account := m.account
			if account == 0 {
				account = 64817
			}
			t.Setenv("ROOT_TEST_LEFT", "1")
			a := m.on(t, mkdir(t, filepath.Join(public(t), "work"), account, account))
			if a.Error != "" || len(a.Left) != len(jailtest.Ends) {
				t.Fatalf("%+v", a)
			}
			for end, left := range a.Left {
				if left != 0 {
					t.Errorf("%s: %d are left", end, left)
				}
			}
		})
	}
}

// until waits a minute for what must come.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within a minute: ", what)
		}
	}
}

// command is a server over a workspace on a machine, which has not started.
func (m machine) command(self, dir string, commands ...string) *exec.Cmd {
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "ROOT_TEST_WORKSPACE="+dir, "ROOT_TEST_COMMANDS="+strings.Join(commands, ";;"))
	if !m.plain {
		cmd.Env = append(cmd.Env, "MACHINE_REEXEC=1")
	}
	if m.account != 0 {
		cmd.Env = append(cmd.Env, fmt.Sprintf("MACHINE_ACCOUNT=%d", m.account))
	}
	if m.denied { // a setting of a namespace of the test's own
		cmd.Env = append(cmd.Env, "MACHINE_DENIED=1")
		all := []syscall.SysProcIDMap{{Size: 1 << 31}}
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: all, GidMappings: all, GidMappingsEnableSetgroups: true}
	}
	cmd.Stderr = os.Stderr
	return cmd
}

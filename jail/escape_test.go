package jail_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/jail"
	"github.com/sallyport-dev/sallyport/jail/jailtest"
)

// escape is a way of leaving a process group. M is a number of seconds that
// only this run of it sleeps for.
type escape struct {
	name, script string
	leaves       bool // it gets away where only the group is killed
}

var escapes = []escape{
	{"a child in the group", "sleep M & sleep M", false},
	{"a child that holds the output", "sleep M & exit 0", false},
	{"a child with its output elsewhere", "sleep M >/dev/null 2>&1 & exit 0", false},
	{"setsid", "setsid sleep M & sleep M", true},
	// $() ends when the last one that holds it has redirected its output, which is
	// after it has left the session.
	{"setsid and exit", "x=$(setsid sh -c 'exec sleep M >/dev/null' &); exit 0", true},
	{"fork twice", "x=$(setsid sh -c 'sleep M >/dev/null & exit' &); exit 0", true},
	{"nohup and trap", "trap '' TERM HUP INT QUIT; nohup sleep M & sleep M", false},
	{"stopped in a session of its own", "setsid sh -c 'kill -STOP $$; sleep M' M & sleep M", true},
	{"a signal to everybody", "x=$(setsid sh -c 'exec sleep M >/dev/null' &); sh -c 'kill -CONT -1'; exit 0", true},
}

var nap atomic.Int64

// asleep finds the processes that carry the number of a run.
func asleep(number string) (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if pid := atoi(e.Name()); pid != 0 && bytes.Contains(line, []byte(number)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func runEscape(t *testing.T, j *jail.Jail, e escape, timeout time.Duration) (jail.Result, []int) {
	t.Helper()
	number := fmt.Sprintf("9%d.%d", os.Getpid(), nap.Add(1))
	if strings.HasSuffix(e.script, "exit 0") {
		timeout = long
	}
	res, _, _ := run(t, j, jail.Command{Args: sh(strings.ReplaceAll(e.script, "M", number)), Timeout: timeout})
	return res, asleep(number)
}

// Whatever ends a command, nothing of it is left when that is said. A process group
// leaves what left the group: the twin.
func TestNothingIsLeft(t *testing.T) {
	full, _ := newJail(t, jail.Full)
	for _, end := range jailtest.Ends {
		t.Run(end, func(t *testing.T) {
			if left, err := jailtest.Left(full, end); err != nil || len(left) != 0 {
				t.Errorf("left %v, %v", left, err)
			}
		})
	}
	group, _ := newJail(t, jail.Group)
	left, err := jailtest.Left(group, jailtest.Ends[3])
	if err != nil || len(left) < 3 {
		t.Errorf("the twin: %v, %v", left, err)
	}
	for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGKILL} { // stopped, a loop starts no further one
		for _, pid := range left {
			unix.Kill(pid, sig)
		}
	}
}

// A command cannot end, stop, read or re-limit its warden, which this process of the
// same account can signal. In a container there is none.
func TestWardenIsOutOfReach(t *testing.T) {
	j, dir := newJail(t, jail.Full)
	const script = `for p in /proc/[0-9]*; do [ "$(cat $p/comm 2>/dev/null)" = jail-warden ] || continue; n=${p#/proc/}
		for s in KILL STOP TERM; do kill -$s $n 2>/dev/null && echo $s $n; done
		cat $p/environ $p/maps >/dev/null 2>&1 && echo read $n; ls $p/fd >/dev/null 2>&1 && echo descriptors $n
		echo 1000 2>/dev/null >$p/oom_score_adj && echo victim $n; prlimit --pid $n --nofile=1 2>/dev/null && echo limit $n; renice 19 $n >/dev/null 2>&1 && echo nice $n
	done; echo looked >found; read x`
	in, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	work, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer work.Close()
	var out bytes.Buffer
	p, err := j.Start(t.Context(), jail.Command{Args: sh(script), Dir: work, Stdin: in, Stdout: &out, Env: []string{"PATH=/usr/bin:/bin"}, Timeout: long})
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return exists(dir, "found") })
	alive := p.Warden() != 0 && unix.Kill(p.Warden(), 0) == nil
	w.Close()
	if res := p.Wait(); res.ExitCode > 1 || out.Len() > 0 || alive == contained {
		t.Errorf("%+v %q, the warden is there: %v", res, out.String(), alive)
	}
}

// When Wait returns, everything that a command started is dead and reaped: the
// test looks once. Where only the group is killed, the same escapes succeed.
func TestEscapes(t *testing.T) {
	full, _ := newJail(t, jail.Full)
	group, _ := newJail(t, jail.Group)
	for _, e := range escapes {
		t.Run(e.name, func(t *testing.T) {
			res, left := runEscape(t, full, e, patience)
			if len(left) != 0 || res.OutputHeld || res.Unkillable {
				t.Errorf("full: left %v, %+v", left, res)
			}
			if strings.HasSuffix(e.script, "exit 0") != (res.ExitCode == 0) || res.TimedOut == (res.ExitCode == 0) {
				t.Errorf("full: %+v", res)
			}
			for timeout := patience; ; timeout *= 4 { // it may not have left in time
				if _, left = runEscape(t, group, e, timeout); !e.leaves || len(left) > 0 {
					break
				}
				if timeout > long {
					t.Fatal("group: nothing left")
				}
			}
			if !e.leaves { // killed, if not yet reaped
				waitFor(t, func() bool { return !slices.ContainsFunc(left, func(pid int) bool { return unix.Kill(pid, 0) == nil }) })
			}
			for _, pid := range left {
				unix.Kill(pid, unix.SIGKILL)
			}
		})
	}
}

// Chains that fork, leave their session and exit, and a bomb: no list of /proc
// can catch them, the domain does. The server and its other commands live on.
func TestRunawayForks(t *testing.T) {
	j, dir := newJail(t, jail.Full)
	prog := program(t, dir)
	other, err := j.Start(t.Context(), jail.Command{Args: sh("read x"), Stdin: neverReady(t)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		act := []string{"hydra", "bomb"}[i%2]
		p, err := j.Start(t.Context(), jail.Command{Args: []string{prog}, Env: []string{actVariable + "=" + act}, Timeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if res := p.Wait(); !res.TimedOut && act == "bomb" || res.Unkillable {
			t.Errorf("%s: %+v", act, res)
		}
		if left := asleep(prog); len(left) != 0 {
			t.Errorf("%s: left %v", act, left)
		}
	}
	if err := unix.Kill(other.PID(), 0); err != nil {
		t.Errorf("another command is gone: %v", err)
	}
	other.Kill()
	other.Wait()
	if res, out, _ := run(t, j, jail.Command{Args: sh("echo alive | cat")}); out != "alive\n" {
		t.Errorf("%+v %q", res, out)
	}
}

func neverReady(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r
}

// hydra and bomb make only raw calls: a forked Go program has but one thread.
//
//go:norace
func hydra() {
	for range 7 {
		if rawFork() == 0 {
			break
		}
	}
	for {
		if rawFork() > 0 {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		unix.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	}
}

//go:norace
func bomb() {
	for {
		rawFork()
		unix.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	}
}

//go:norace
func rawFork() int {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return -1
	}
	return int(pid)
}

package jail_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/jail"
)

// tidy cleans up at SIGTERM, in a child of its own session too, as build tools,
// git and servers do.
const tidy = `trap 'rm lock ready; echo tidied; exit 3' TERM; touch lock
	setsid sh -c 'trap "rm child; exit" TERM; touch child; while :; do sleep .02; done' &
	while ! test -e child; do sleep .01; done; echo begun; touch ready; while :; do sleep .02; done`

// graceful starts tidy and waits until it has begun, within a timeout if that is not 0.
func graceful(t *testing.T, j *jail.Jail, dir string, timeout time.Duration) (*jail.Process, *strings.Builder) {
	t.Helper()
	work, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { work.Close() })
	out := &strings.Builder{}
	p, err := j.Start(t.Context(), jail.Command{Args: sh(tidy), Env: []string{"PATH=/usr/bin:/bin"}, Dir: work, Stdout: out, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { p.Wait(); close(ended) }()
	waitFor(t, func() bool {
		select {
		case <-ended:
			return true
		default:
			return exists(dir, "ready")
		}
	})
	if !exists(dir, "ready") && timeout < long { // a busy machine: its time was over before
		return graceful(t, j, dir, 4*timeout)
	}
	return p, out
}

func exists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

// At its timeout and when it is stopped a command can clean up, what has left
// its group too; the grace ends when nothing is left. Without a grace the same
// command leaves both files behind.
func TestGraceLetsCommandsCleanUp(t *testing.T) {
	for name, stop := range map[string]func(*jail.Process){"timeout": nil, "stop": (*jail.Process).Stop} {
		t.Run(name, func(t *testing.T) {
			j, dir := newJailWith(t, jail.Config{Mode: jail.Full, Network: jail.None, Grace: long})
			timeout := long
			if stop == nil {
				timeout = patience
			}
			p, out := graceful(t, j, dir, timeout)
			if stop != nil {
				stop(p)
			}
			res := p.Wait()
			if res.ExitCode != 3 || res.TimedOut != (stop == nil) || out.String() != "begun\ntidied\n" || res.Duration > long/2 {
				t.Errorf("%+v %q", res, out)
			}
			if exists(dir, "lock") || exists(dir, "child") {
				t.Error("something was left behind")
			}
		})
	}
	j, dir := newJailWith(t, jail.Config{Mode: jail.Full, Network: jail.None, Grace: -1})
	p, _ := graceful(t, j, dir, 0)
	p.Stop()
	if res := p.Wait(); res.Signal != "SIGKILL" || !exists(dir, "lock") || !exists(dir, "child") {
		t.Errorf("without a grace: %+v", res)
	}
}

// What ignores SIGTERM is killed when the grace is over, with everything that it
// started; Kill does not wait for that, also when it comes in the middle.
func TestGraceEnds(t *testing.T) {
	const stubborn = "trap '' TERM; (setsid sleep 900 &) ; echo; while :; do sleep 900; done"
	for name, c := range map[string]struct {
		grace time.Duration
		stop  func(*jail.Process)
	}{
		"over":   {300 * time.Millisecond, (*jail.Process).Stop},
		"killed": {long, (*jail.Process).Kill},
		"cut":    {long, func(p *jail.Process) { p.Stop(); time.Sleep(50 * time.Millisecond); p.Kill() }},
	} {
		t.Run(name, func(t *testing.T) {
			j, _ := newJailWith(t, jail.Config{Mode: jail.Full, Network: jail.None, Grace: c.grace})
			ready, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			p, err := j.Start(t.Context(), jail.Command{Args: sh(stubborn), Stdout: w})
			if err != nil {
				t.Fatal(err)
			}
			ready.Read(make([]byte, 1))
			began := time.Now()
			c.stop(p)
			res := p.Wait()
			if took := time.Since(began); res.Signal != "SIGKILL" || c.grace < long && took < c.grace || took > long/2 {
				t.Errorf("%+v after %v", res, took)
			}
			if unix.Kill(p.PID(), 0) != unix.ESRCH {
				t.Error("it is still there")
			}
		})
	}
}

// A command that has ended by itself has not timed out, however late that is
// noticed; and what is stopped by a signal can still end within the grace.
func TestGraceWakesWhatIsStopped(t *testing.T) {
	j, _ := newJailWith(t, jail.Config{Mode: jail.Full, Network: jail.None, Grace: long})
	res, _, _ := run(t, j, jail.Command{Args: sh("kill -STOP $$"), Timeout: time.Second})
	if !res.TimedOut || res.Signal != "SIGTERM" || res.Duration > long/2 {
		t.Errorf("%+v", res)
	}
}

// Closing a jail gives all its commands one grace together.
func TestCloseSharesOneGrace(t *testing.T) {
	const grace = time.Second
	j, _ := newJailWith(t, jail.Config{Mode: jail.Full, Network: jail.None, Grace: grace})
	for range 12 {
		if _, err := j.Start(t.Context(), jail.Command{Args: sh("trap '' TERM; while :; do sleep 900; done")}); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	j.Close()
	if took := time.Since(began); took > 8*grace {
		t.Errorf("%v", took)
	}
}

// A start that fails late has come into the domain already: all of it ends, and
// the call does not wait for the bound when its caller has gone.
func TestFailedStartLeavesNothing(t *testing.T) {
	j, _ := newJail(t, jail.Full)
	before := len(ownProcesses())
	for range 5 {
		if _, err := j.Start(t.Context(), jail.Command{Args: []string{"/nonexistent"}}); err == nil {
			t.Fatal("it started")
		}
	}
	if now := len(ownProcesses()); now > before {
		t.Errorf("%d processes before, %d after", before, now)
	}
}

package jail_test

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/jail"
	"github.com/sallyport-dev/sallyport/jail/policy"
)

// turns are the longest that a thread takes.
func turns(t *testing.T, tid int) uint64 {
	t.Helper()
	a, err := unix.SchedGetAttr(tid, 0)
	if err != nil {
		t.Fatal(err)
	}
	return a.Runtime
}

// The thread of a command takes short turns, the command does not, and has no call
// for it. (How late things are beside fork bombs without this: TestSoak.)
func TestTurns(t *testing.T) {
	j, dir := newJailWith(t, jail.Config{Mode: jail.Full, Network: jail.None})
	usual := turns(t, 0)
	taken := make(chan uint64)
	go func() {
		runtime.LockOSThread() // ends with the goroutine
		jail.TakeShortTurns()
		taken <- turns(t, 0)
	}()
	switch got := <-taken; got {
	case jail.ShortTurns:
	case usual:
		t.Skip("before Linux 6.12 the kernel chooses the turns")
	default:
		t.Fatalf("turns of %d ns, %d before", got, usual)
	}
	work, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer work.Close()
	p, err := j.Start(t.Context(), jail.Command{Args: sh("exec sleep 900"), Dir: work})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Wait()
	defer p.Kill()
	short := 0
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		if a, err := unix.SchedGetAttr(atoi(task.Name()), 0); err == nil && a.Runtime == jail.ShortTurns {
			short++
		}
	}
	if short == 0 {
		t.Error("no thread of this process takes short turns while a command runs")
	}
	if got := turns(t, p.PID()); got != usual {
		t.Errorf("the command takes turns of %d ns, %d are usual", got, usual)
	}
	if !strings.Contains(policy.Config{Mode: policy.Full, Network: policy.None}.String(), "call sched_setattr ENOSYS") {
		t.Error("commands may choose their turns")
	}
}

// The grace counts from the timeout, and a half of it is always left.
func TestGraceOver(t *testing.T) {
	timeout, grace := time.Unix(1000, 0), 2*time.Second
	for late, want := range map[time.Duration]time.Duration{0: grace, 300 * time.Millisecond: grace, time.Second: grace, 5 * time.Second: 6 * time.Second} {
		if got := jail.GraceOver(timeout, timeout.Add(late), grace).Sub(timeout); got != want {
			t.Errorf("seen %v late: %v, want %v", late, got, want)
		}
	}
}

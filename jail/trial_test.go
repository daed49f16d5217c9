package jail_test

import (
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/jail"
)

// Where not one process can be started, the trial says so. It would else take
// the account for one with millions, and give a fork bomb as much.
func TestTrialInAFullContainer(t *testing.T) {
	var threads sync.WaitGroup // the runtime gets no new ones in a moment
	for range 24 {
		threads.Go(func() { unix.Nanosleep(&unix.Timespec{Nsec: 200e6}, nil) })
	}
	threads.Wait()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: 1, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	err := jail.Trial()
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &was); err != nil {
		t.Fatal(err)
	}
	if err == nil || !strings.Contains(err.Error(), "no process can be started") {
		t.Errorf("%v", err)
	}
}

// A count beside a fork bomb can be anything. It must not raise the budget, or the
// bomb could fill the container; what stays higher was somebody else's growth.
func TestCountsBesideBombs(t *testing.T) {
	for _, c := range []struct {
		first int
		later []int
		want  int
	}{
		{3, nil, 3},
		{3, []int{180}, 3},
		{3, []int{180, 90, 150, 170, 5, 160, 150, 140}, 5},
		{3, []int{180, 1}, 1},
		{3, []int{100, 101, 102, 103, 104}, 3},
		{3, []int{100, 101, 102, 103, 104, 105}, 100},
	} {
		if got := jail.Outside(c.first, c.later...); got != c.want {
			t.Errorf("%d, then %d: %d, want %d", c.first, c.later, got, c.want)
		}
	}
}

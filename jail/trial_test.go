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

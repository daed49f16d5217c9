package jail

import (
	"runtime"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/procfs"
)

// While a command runs, or a server of the hub for days, it is looked five times a
// second. Far from the limit that reads one line, not every process of the machine.
func TestLookingFarFromTheLimitIsCheap(t *testing.T) {
	if all, err := procfs.AllTasks(); err != nil || all == 0 {
		t.Skipf("this kernel does not say how many tasks there are: %d %v", all, err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0)) // which a met limit raises
	nobodyWatches(t)
	var p pressure
	far := testing.AllocsPerRun(5, func() { p.look(func() int { return 1 << 20 }) })
	near := testing.AllocsPerRun(5, func() { p.look(func() int { return 1 }) })
	if far > 20 || near <= far {
		t.Errorf("far from the limit %v allocations, near it %v", far, near)
	}
	if !p.since(time.Now().Add(-time.Minute)) {
		t.Error("twin: the limit of one task was not found met")
	}
}

// nobodyWatches waits until the commands of earlier tests are not looked after any
// more, which would count here too.
func nobodyWatches(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		thePressure.mu.Lock()
		watching := thePressure.watching
		thePressure.mu.Unlock()
		if !watching {
			return
		}
		if time.Now().After(end) {
			t.Fatal("commands of earlier tests still run")
		}
	}
}

// Beside a crowd more threads may run at once; when no command is left, as many as before.
func TestPlacesBesideACrowd(t *testing.T) {
	nobodyWatches(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	p := pressure{watching: true}
	p.look(func() int { return 1 << 20 })
	if n := runtime.GOMAXPROCS(0); n != 2 {
		t.Errorf("far from the limit %d threads", n)
	}
	p.look(func() int { return 1 })
	if n := runtime.GOMAXPROCS(0); n != places {
		t.Errorf("at the limit %d threads, want %d", n, places)
	}
	p.running = 1
	if p.relax() || runtime.GOMAXPROCS(0) != places {
		t.Error("beside the crowd they are given back")
	}
	p.met = p.met.Add(-crowdAge)
	if p.relax() || runtime.GOMAXPROCS(0) != 2 {
		t.Error("a command that goes on without a crowd keeps them")
	}
	p.look(func() int { return 1 })
	p.running = 0
	p.watch(nil)
	if n := runtime.GOMAXPROCS(0); n != 2 {
		t.Errorf("without commands %d threads, want 2 again", n)
	}
}

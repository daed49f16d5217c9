package jail

import (
	"runtime"
	"sync"
	"time"

	"github.com/sallyport-dev/sallyport/internal/procfs"
)

// pressureEvery is how often the tasks of all commands are counted while any runs.
const pressureEvery = 200 * time.Millisecond

// crowdAge is how long after the last meeting more threads may run: one command that
// sleeps for a day, with a bomb now and then, must not cost the others calls.
const crowdAge = 10 * time.Second

// thePressure knows when commands last had as many tasks as they may. The
// kernel tells nobody but the program whose fork it refuses, and most programs
// name neither the limit nor the setting. One that meets the limit for less than
// pressureEvery may go unnoticed.
var thePressure pressure

type pressure struct {
	mu       sync.Mutex
	running  int
	watching bool
	met      time.Time
	usual    int // GOMAXPROCS before it was met, 0 where it has not been since
}

// begin counts a command in; the first of them starts the looking.
func (p *pressure) begin(j *Jail) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running++
	if !p.watching {
		p.watching = true
		go p.watch(j)
	}
}

func (p *pressure) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
}

// watch looks until no command runs.
func (p *pressure) watch(j *Jail) {
	for {
		time.Sleep(pressureEvery)
		if p.relax() {
			return
		}
		p.look(j.Tasks)
		theReserve.guard(oneWatch, newest)
	}
}

// relax gives the threads back beside which no crowd is any more, and says whether
// no command runs.
func (p *pressure) relax() (over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watching = p.running > 0
	if p.usual != 0 && (!p.watching || time.Since(p.met) > crowdAge) {
		runtime.GOMAXPROCS(p.usual)
		p.usual = 0
	}
	return !p.watching
}

// look counts once: this server's own tasks are part of the account's. A sixteenth
// may be missing: a program that ends because it met the limit has ended by then.
// Where the whole machine has fewer tasks than that, nobody counts: this runs as
// long as any command does, and a server of the hub runs for days.
func (p *pressure) look(tasks func() int) {
	most := tasks()
	if all, err := procfs.AllTasks(); err == nil && all > 0 && all+all/16+2 < most { // gVisor says 0
		return
	}
	own, _, err := procfs.Tasks()
	if err != nil || own+own/16+2 < most {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.met = time.Now()
	if p.usual == 0 {
		p.usual = runtime.GOMAXPROCS(max(places, runtime.GOMAXPROCS(0)))
	}
}

// since says whether the limit was met at a time or later.
func (p *pressure) since(t time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.met.After(t)
}

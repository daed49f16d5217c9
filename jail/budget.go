package jail

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/internal/procfs"
	"github.com/sallyport-dev/sallyport/jail/policy"
	"github.com/sallyport-dev/sallyport/jail/selftest"
)

// budgetAge is how long a count of the account's processes is good for.
const budgetAge = 10 * time.Second

// theBudget is RLIMIT_NPROC for commands. The kernel counts it per account on
// the whole host, so what the account holds elsewhere comes on top: else a busy
// account could not run a command, and a fork bomb could starve this server.
var theBudget budget

type budget struct {
	mu    sync.Mutex
	taken time.Time
	known counts
}

// counts are the newest counts of what the account has elsewhere.
type counts []int

// believed is how many counts beside running commands have to agree.
const believed = 6

// with adds a count. One taken while commands run may be too high: what a fork
// bomb starts and loses in the meantime looks like somebody else's.
func (c counts) with(n int, idle bool) counts {
	if idle {
		return counts{n}
	}
	return append(c, n)[max(0, len(c)+1-believed):]
}

// outside is the lowest: too small a budget only fails a command, but with one
// that is too large a bomb fills the container, and this server gets no thread.
func (c counts) outside() int { return slices.Min(c) }

// limit is the number for a command that starts now.
func (b *budget) limit(j *Jail) (uint64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, contained := procfs.PidsLimit()
	if time.Since(b.taken) > budgetAge || b.taken.IsZero() {
		n, err := 0, error(nil) // a user namespace of our own has a count of its own
		switch {
		case errOutside == nil:
		case contained:
			n, err = j.outsideByTrial()
		default:
			_, n, err = procfs.Tasks()
		}
		if err != nil {
			return 0, fmt.Errorf("counting the account's processes: %w", err)
		}
		b.known, b.taken = b.known.with(n, alone()), time.Now()
	}
	var own unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NPROC, &own)
	return min(uint64(b.known.outside()+j.Tasks()), own.Max), err
}

// Tasks is how many processes and threads all running commands together may
// have: what Config asks for, less where a cgroup bounds this process.
func (j *Jail) Tasks() int {
	tasks := cmp.Or(j.cfg.Tasks, policy.DefaultTasks())
	if limit, _ := procfs.PidsLimit(); limit > 0 {
		tasks = min(tasks, max(limit-policy.PidsReserve, policy.MinTasks))
	}
	return tasks
}

// outsideByTrial finds the kernel's own count, which in a container also has
// what /proc does not show: the account's tasks in other containers. Our own
// are counted before and after, and the higher number believed, since too
// small a budget only fails a command.
func (j *Jail) outsideByTrial() (int, error) {
	before, _, err := procfs.Tasks()
	if err != nil {
		return 0, err
	}
	out, err := j.throwaway(nil, onlyStage(stageTrial))
	if err != nil {
		return 0, err
	}
	var total, trial int
	if _, err := fmt.Sscan(out, &total, &trial); err != nil {
		return 0, fmt.Errorf("trial: %q", out)
	}
	after, _, err := procfs.Tasks()
	return max(total-trial-max(before, after), 0), err
}

// trial looks for the lowest limit under which this process can fork, and
// prints the account's count and its own part of it.
func trial() error {
	var own syscall.Rlimit
	if err := syscall.Getrlimit(unix.RLIMIT_NPROC, &own); err != nil {
		return err
	}
	if err := selftest.ForkOnce(); err != nil { // a container that is full would look like an account with millions
		return fmt.Errorf("no process can be started: %w", err)
	}
	low, high := uint64(0), min(own.Max, 1<<22)
	for low+1 < high { // fork fails at low, works at high
		mid := (low + high) / 2
		if err := syscall.Setrlimit(unix.RLIMIT_NPROC, &syscall.Rlimit{Cur: mid, Max: own.Max}); err != nil {
			return err
		}
		switch err := selftest.ForkOnce(); err {
		case nil:
			high = mid
		case unix.EAGAIN:
			low = mid
		default:
			return err
		}
	}
	raw, err := os.ReadFile("/proc/self/status")
	fmt.Println(high-1, procfs.Field(raw, "Threads:"))
	return err
}

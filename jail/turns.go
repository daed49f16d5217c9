package jail

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/jail/policy"
)

// shortTurn is how long a thread of the server runs before the others' turn comes,
// at most; the kernel's own is about 3 ms. crowd is how many processes may go first:
// of more than that, each would wait for the others.
const (
	shortTurn = 100 * time.Microsecond
	crowd     = 16
)

// places is how many threads of this process may run Go code at once beside a fork
// bomb, at least. One that the kernel keeps waiting keeps its place too, and with one
// for each processor nobody else could go on. Without a bomb more of them cost time.
const places = 8

// shortTurns lets a thread run as soon as it wakes, also beside a fork bomb, whose
// processes never sleep: the kernel takes the shortest turn first (EEVDF; before
// Linux 6.12 this changes nothing). What it forks takes the usual turns.
func shortTurns(tid int) {
	if a, err := unix.SchedGetAttr(tid, 0); err == nil {
		a.Runtime, a.Flags = uint64(shortTurn), unix.SCHED_FLAG_RESET_ON_FORK
		_ = unix.SchedSetAttr(tid, a, 0) // without it, all is as right, but late
	}
}

// hurry lets the command's processes die before others run on.
func (p *Process) hurry() {
	if p.jail.cfg.Mode != policy.Full {
		return
	}
	left := crowd
	pids, _ := others() // none: they die in their turn
	for _, pid := range pids {
		if left > 0 && unix.Kill(pid, 0) == nil {
			shortTurns(pid)
			left--
		}
	}
}

package jail_test

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/procfs"
	"github.com/sallyport-dev/sallyport/jail"
	"github.com/sallyport-dev/sallyport/jail/policy"
)

// soaking is set by "make soak": the long figures.
var soaking = os.Getenv("SALLYPORT_SOAK") != ""

// hostile are 13 kinds of commands that try not to end.
func hostile(prog string) []jail.Command {
	bomb := jail.Command{Args: []string{prog}, Env: []string{actVariable + "=bomb"}}
	hydra := jail.Command{Args: []string{prog}, Env: []string{actVariable + "=hydra"}}
	cs := []jail.Command{bomb, hydra}
	for _, script := range []string{
		"sleep 900 & exit 0",
		"setsid sleep 900 & exit 3",
		"(setsid sh -c 'sleep 900 & sleep 900 &' &); exit 0",
		"trap '' TERM HUP INT QUIT; nohup sleep 900; sleep 900",
		"setsid sh -c 'kill -STOP $$' & sleep 900",
		"yes | cat",
		"setsid sh -c 'while :; do echo held; sleep .01; done' & exit 0",
		"for i in 1 2 3 4 5 6 7 8 9; do setsid sleep 900 & done; kill -9 -1; sleep 900",
		"mkfifo f$$; cat f$$ & sleep 900 > f$$ & cat f$$",
		"sh -c 'sh -c \"sh -c : & sleep 900\" & sleep 900' & exec sleep 900",
		"cat /dev/zero | head -c 100000000 >/dev/null; ulimit -n 3; exec /bin/sh -c 'exit 7'",
	} {
		cs = append(cs, jail.Command{Args: sh(script)})
	}
	return cs
}

// Twelve at a time, with a timeout that hits them in the middle: no survivor,
// no zombie, no descriptor and no goroutine is left. Beside a fork bomb many of
// the others cannot fork, since all share one budget of processes, and end before
// their time: so a quarter as many run again without the two bombs.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("make test runs it")
	}
	total := 65
	if contained {
		total = 500
	}
	if n, err := strconv.Atoi(os.Getenv("SALLYPORT_SOAK")); err == nil && n > 1 {
		total = n
	} else if soaking {
		total = 10000
	}
	j, dir := newJailWith(t, jail.Config{Mode: jail.Full, Network: jail.None, PrivateMounts: inNamespace(), Grace: policy.DefaultGrace})
	kinds := hostile(program(t, dir))
	work, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer work.Close()
	hammer(t, j, work, kinds, 26) // threads and buffers that come with first use
	fds, goroutines := count("/proc/self/fd"), runtime.NumGoroutine()
	late, _ := hammer(t, j, work, kinds, total)
	calm, timedOut := hammer(t, j, work, kinds[2:], total/4)
	if left := ownProcesses(); len(left) > 1 { // the canary
		t.Errorf("left: %q", left)
	}
	waitFor(t, func() bool { return runtime.NumGoroutine() <= goroutines+2 })
	waitFor(t, func() bool { return count("/proc/self/fd") <= fds+2 })
	pastTheTimeout(t, "13 kinds", total, late)
	pastTheTimeout(t, "without bombs", total/4, calm)
	if timedOut < total/16 { // 6 of these 11 kinds run indefinitely
		t.Errorf("%d of %d commands without bombs ran until their timeout", timedOut, total/4)
	}
}

func pastTheTimeout(t *testing.T, what string, total int, late []time.Duration) {
	slices.Sort(late)
	if len(late) == 0 {
		if t.Logf("%s: no command used up its grace", what); soaking { // of few, on a busy machine, perhaps none
			t.Error("no figure")
		}
		return
	}
	p95 := late[len(late)*95/100]
	t.Logf("%s: %d commands; past the timeout and the grace: p50 %v, p95 %v, max %v of %d", what, total,
		late[len(late)/2], p95, late[len(late)-1], len(late))
	if soaking && contained && !raceEnabled && p95 > 250*time.Millisecond {
		t.Errorf("%s: p95 past the timeout: %v", what, p95)
	}
}

// hammer runs commands and returns how many timed out, and how late those were
// that did not end within the grace.
func hammer(t *testing.T, j *jail.Jail, dir *os.File, kinds []jail.Command, total int) (late []time.Duration, timedOut int) {
	const timeout = 300 * time.Millisecond
	next := make(chan jail.Command)
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			for c := range next {
				c.Dir, c.Stdout, c.Stderr, c.Timeout = dir, io.Discard, io.Discard, timeout
				res, err := j.Run(t.Context(), c)
				mu.Lock()
				switch {
				case err != nil || res.Unkillable:
					t.Errorf("%q: %+v, %v", c.Args, res, err)
				case res.TimedOut:
					timedOut++
					if past := res.Duration - timeout - policy.DefaultGrace; past >= 0 {
						late = append(late, past)
					}
				}
				mu.Unlock()
			}
		})
	}
	for i := range total {
		next <- kinds[i%len(kinds)]
	}
	close(next)
	all.Wait()
	return late, timedOut
}

func count(dir string) int {
	entries, _ := os.ReadDir(dir)
	return len(entries)
}

// ownProcesses are all that this one has started, zombies too, orphans as well:
// they are handed to it.
func ownProcesses() (lines []string) {
	entries, _ := os.ReadDir("/proc")
	parent, name := map[int]int{}, map[int]string{}
	for _, e := range entries {
		raw, err := os.ReadFile("/proc/" + e.Name() + "/status")
		if pid := atoi(e.Name()); pid != 0 && err == nil {
			first, _, _ := strings.Cut(string(raw), "\n")
			parent[pid], name[pid] = procfs.Field(raw, "PPid:"), first
		}
	}
	for pid := range parent {
		above := parent[pid]
		for above != os.Getpid() && above > 0 {
			above = parent[above]
		}
		if above > 0 {
			lines = append(lines, fmt.Sprint(pid, " ", name[pid]))
		}
	}
	return lines
}

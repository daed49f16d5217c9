//go:build bench

package bench_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// cpu returns a function that says how much processor time the processes have
// used together (proc(5): utime and stime, in ticks of 10 ms).
func cpu(processes ...*rig.Process) func() time.Duration {
	return func() (sum time.Duration) {
		for _, p := range processes {
			data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Cmd.Process.Pid))
			if err != nil {
				continue
			}
			_, after, _ := strings.Cut(string(data), ") ")
			fields := strings.Fields(after)
			for _, i := range []int{11, 12} {
				ticks, _ := strconv.Atoi(fields[i])
				sum += time.Duration(ticks) * 10 * time.Millisecond
			}
		}
		return sum
	}
}

// resident is a process's resident memory in bytes.
func resident(t *testing.T, p *rig.Process) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(data), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

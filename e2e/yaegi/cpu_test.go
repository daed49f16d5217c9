package yaegi

import (
	"syscall"
	"testing"
	"time"
)

// cpuPerOp reports the process's CPU time: other work on the machine makes
// the time on the clock useless.
func cpuPerOp(b *testing.B) func() {
	cpu := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := cpu()
	return func() { b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op") }
}

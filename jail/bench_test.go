package jail_test

import (
	"slices"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/jail"
)

// What the jail adds to a plain shell, measured in turns: the figures of one run
// can be compared, those of two cannot.
func BenchmarkShell(b *testing.B) {
	dir := b.TempDir()
	full, err := jail.New(jail.Config{Mode: jail.Full, Network: jail.None, Writable: []string{dir}})
	if err != nil {
		b.Fatal(err)
	}
	defer full.Close()
	args := []string{"/bin/sh", "-c", "true"}
	env := []string{"PATH=/usr/bin:/bin", "HOME=" + dir}
	private := []string{b.TempDir()} // a domain for each command
	ways := map[string]func() error{
		"private": func() error {
			_, err := full.Run(b.Context(), jail.Command{Args: args, Env: env, Writable: private})
			return err
		},
		"plain": func() error { return jail.RunPlain(args, env) },
		"jail":  func() error { _, err := full.Run(b.Context(), jail.Command{Args: args, Env: env}); return err },
	}
	took := map[string][]time.Duration{}
	for b.Loop() {
		for name, run := range ways {
			begin := time.Now()
			if err := run(); err != nil {
				b.Fatal(err)
			}
			took[name] = append(took[name], time.Since(begin))
		}
	}
	for name, ds := range took {
		slices.Sort(ds)
		b.ReportMetric(float64(ds[len(ds)/2].Microseconds())/1000, name+"-p50-ms")
		b.ReportMetric(float64(ds[len(ds)*95/100].Microseconds())/1000, name+"-p95-ms")
	}
	b.ReportMetric(0, "ns/op") // two different things in one
}

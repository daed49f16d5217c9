//go:build bench

// Package bench_test measures the chain beside its alternatives, in one run:
// `make bench`. Figures are recorded and never asserted; compare rows of one run,
// not runs.
package bench_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/figures"
	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// rounds are interleaved, so that other work on the machine meets all rows.
func rounds() int { return figures.Pick(5, 2) }

// asked keeps the machine for itself. The build tag keeps these tests out of
// every other run.
func asked(t *testing.T) {
	t.Helper()
	rig.Lock(t, "bench")
}

// row is one way of doing the same thing.
type row struct {
	name string
	do   func() error // one request; called from several goroutines
	cpu  func() time.Duration

	rates, lags, costs []float64 // by round: requests/s, median ms, the server's µs each
}

// compare runs each row for a while, round by round, and logs the medians.
func compare(t *testing.T, title string, clients int, long time.Duration, rows []*row) {
	t.Helper()
	for round := range rounds() + 1 { // the first one warms up
		for _, r := range rows {
			before := r.cpu()
			n, lag := load(t, r, clients, long)
			if round > 0 && n > 0 {
				r.rates = append(r.rates, float64(n)/long.Seconds())
				r.lags = append(r.lags, lag.Seconds()*1000)
				r.costs = append(r.costs, float64((r.cpu()-before).Nanoseconds())/1000/float64(n))
			}
		}
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%s (%d clients, median of %d rounds of %s)\n%-28s %10s %12s %14s\n",
		title, clients, rounds(), long, "", "requests/s", "median ms", "server µs each")
	for _, r := range rows {
		fmt.Fprintf(&table, "%-28s %10.0f %12.2f %14.0f\n", r.name, figures.Median(r.rates), figures.Median(r.lags), figures.Median(r.costs))
	}
	t.Log("\n" + table.String())
}

// load calls do from several goroutines for a while and returns how often, and
// the median of how long it took.
func load(t *testing.T, r *row, clients int, long time.Duration) (int, time.Duration) {
	t.Helper()
	var mu sync.Mutex
	var lags []time.Duration
	var all sync.WaitGroup
	end := time.Now().Add(long)
	for range clients {
		all.Go(func() {
			var mine []time.Duration
			for time.Now().Before(end) {
				start := time.Now()
				if err := r.do(); err != nil {
					t.Errorf("%s: %v", r.name, err)
					return
				}
				mine = append(mine, time.Since(start))
			}
			mu.Lock()
			lags = append(lags, mine...)
			mu.Unlock()
		})
	}
	all.Wait()
	if len(lags) == 0 {
		return 0, 0
	}
	slices.Sort(lags)
	return len(lags), lags[len(lags)/2]
}

func percentile(values []float64, q float64) float64 {
	values = slices.Clone(values)
	slices.Sort(values)
	return values[int(q*float64(len(values)-1))]
}

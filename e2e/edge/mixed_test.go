package edge

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// Thousands of mixed attacks at once, in a soak a hundred thousand: Traefik
// lives, and nothing grows.
func TestMixedAttacksSoak(t *testing.T) {
	requests := 10_000
	if soak {
		requests = 100_000
	}
	bothProxies(t, func(t *testing.T, fast bool) { mixedAttacks(t, fast, requests) })
}

func mixedAttacks(t *testing.T, fast bool, requests int) {
	s := newStand(t, fast, "--api.debug=true", "--accesslog=false", "--log.level=ERROR")
	round := func(n int) {
		var next atomic.Int64
		var workers sync.WaitGroup
		for worker := range 8 {
			workers.Go(func() {
				t.Run(fmt.Sprint(worker), func(t *testing.T) {
					for i := next.Add(1); i <= int64(n); i = next.Add(1) {
						a := attacks[int(i)%len(attacks)]
						if len(a.body) > 1<<20 || a.open {
							continue
						}
						w := a.request(s.token)
						if i%2 == 0 && !a.http1 {
							w.h2c(t, s.Web)
						} else {
							w.http1(t, s.Web)
						}
					}
				})
			})
		}
		workers.Wait()
		s.backend.take()
	}
	round(requests / 10)
	before := measure(t, s.Traefik)
	round(requests)
	var after size
	rig.Until(t, "the connections to end", func() bool {
		after = measure(t, s.Traefik)
		return after.goroutines < before.goroutines+50
	})
	t.Logf("before %+v, after %d requests %+v", before, requests, after)
	if after.heap > before.heap+20<<20 {
		t.Errorf("it grew from %+v to %+v", before, after)
	}
	alive(t, s)
}

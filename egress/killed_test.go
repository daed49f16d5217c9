package main_test

import (
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/audit/reader"
)

// kill -9 while connections are made: the chain verifies each time, and no
// connection came to its host without its begin.
func TestKilledEgressLosesNoRecord(t *testing.T) {
	rounds := 20
	if os.Getenv("SALLYPORT_SOAK") != "" {
		rounds = 200
	}
	world.dns.Set("ok.example", "93.184.215.10")
	e := start(t, "ok.example")
	forget()
	arrived, begun := 0, 0
	for round := range rounds {
		if round > 0 {
			e.run()
		}
		c := e.command(t, "c1", "ok.example")
		var made atomic.Int64
		var all sync.WaitGroup
		over := make(chan struct{})
		for range 3 {
			all.Go(func() {
				for {
					select {
					case <-over:
						return
					default:
					}
					if _, err := c.get("https://ok.example/"); err == nil {
						made.Add(1)
					}
				}
			})
		}
		for deadline := time.Now().Add(time.Minute); made.Load() == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("round %d: no connection", round)
			}
		}
		time.Sleep(time.Duration(rand.IntN(50_000)) * time.Microsecond) // the random point
		e.cmd.Process.Kill()
		e.cmd.Wait()
		close(over)
		all.Wait()
		c.way.Close()
		if r, err := audit.Verify(e.audit, audit.VerifyOptions{}); err != nil || r.Finding != nil {
			t.Fatalf("round %d: %v %v", round, r.Finding, err)
		}
		if _, _, err := reader.Read(e.audit); err != nil {
			t.Fatalf("round %d: the second reader: %v", round, err)
		}
	}
	arrived = len(world.heard("93.184.215.10:443"))
	_ = audit.Lines(e.audit, func(l audit.Line) bool {
		if r, ok := l.Record(); ok && r.Kind == audit.KindBegin {
			begun++
		}
		return true
	})
	t.Logf("%d kills: %d connections arrived, %d begins", rounds, arrived, begun)
	if arrived == 0 || arrived > begun {
		t.Errorf("%d connections arrived, %d are on the record", arrived, begun)
	}
}

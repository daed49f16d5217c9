package main_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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

// The disk of the audit is full: connections are refused with the reason and reach no
// host; with room again they do. Nothing is lost.
func TestFullDiskRefusesConnections(t *testing.T) {
	world.dns.Set("ok.example", "93.184.215.10")
	dir := t.TempDir()
	folder := filepath.Join(dir, "audit") // these tests have a mount namespace of their own
	if err := errors.Join(os.Mkdir(folder, 0o700), syscall.Mount("tmpfs", folder, "tmpfs", 0, "size=2m,mode=0700")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(folder, syscall.MNT_DETACH) })
	e := startIn(t, dir, "ok.example", os.Geteuid())
	t.Cleanup(func() { e.cmd.Process.Kill(); e.cmd.Wait() })
	c := e.command(t, "c1", "ok.example")
	if _, err := c.get("https://ok.example/"); err != nil {
		t.Fatalf("twin, with room: %v", err)
	}
	rest, err := os.Create(filepath.Join(folder, "rest"))
	if err != nil {
		t.Fatal(err)
	}
	defer rest.Close()
	if _, err := io.Copy(rest, zeros{}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	refused := error(nil)
	for n, row := 0, 0; row < 20 && n < 20_000; n++ { // what was reserved before, or is given back by one that ends, may still be used
		if _, err := c.get("https://ok.example/"); err != nil {
			refused, row = err, row+1
		} else {
			row = 0
		}
	}
	forget()
	if _, err := c.get("https://ok.example/"); err == nil || refused == nil || len(world.heard("93.184.215.10:443")) > 0 {
		t.Errorf("a connection without a record: %v", err)
	}
	if err := os.Remove(rest.Name()); err != nil {
		t.Fatal(err)
	}
	rest.Close()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err = c.get("https://ok.example/"); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("with room again: %v", err)
		}
	}
	c.mu.Lock()
	t.Logf("refused with %v, told %v", refused, c.told)
	c.mu.Unlock()
	if _, _, err := reader.Read(e.audit); err != nil {
		t.Errorf("the second reader: %v", err)
	}
	if r, err := audit.Verify(e.audit, audit.VerifyOptions{}); err != nil || r.Finding != nil {
		t.Errorf("%v %v", r.Finding, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// A second egress with the same audit does not start, and says why.
func TestSecondEgressIsRefused(t *testing.T) {
	e := start(t, "ok.example")
	second := exec.Command(binary)
	second.Env = append(e.env, "EGRESS_SOCKET="+filepath.Join(t.TempDir(), "e.sock"))
	if out, err := second.CombinedOutput(); err == nil || !strings.Contains(string(out), "another process") {
		t.Errorf("%v\n%s", err, out)
	}
}

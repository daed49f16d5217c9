package soak

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/internal/audit"
)

// Everything at once. No answer is lost or crossed but for kill -9, nothing that a
// command started survives, the audit is whole and has a begin for each call that
// ran, and nothing grows.
func TestMixed(t *testing.T) {
	long, kept := 12*time.Second, false
	if d, err := time.ParseDuration(os.Getenv("SALLYPORT_SOAK_FOR")); err == nil {
		long, kept = d, true
	}
	w := newWorld(t)
	traefik, sandbox := w.measure(w.chain.Process), w.measure(w.sandbox)
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	var all sync.WaitGroup
	for _, how := range []rig.Transport{rig.SSE, rig.Streamable} {
		for range 2 {
			all.Go(func() { w.visit(ctx, w.chain.Token, how, w.echo) })
		}
		all.Go(func() { w.visit(ctx, w.chain.Token, how, w.file()) })
		all.Go(func() { w.visit(ctx, w.asker, how, w.asked()) })
	}
	all.Go(func() { w.visit(ctx, w.chain.Token, rig.Streamable, w.hostile()) })
	all.Go(func() { w.rotate(ctx) })
	all.Go(func() { w.linger(ctx) })
	owner, stop := context.WithCancel(context.Background())
	var desk sync.WaitGroup
	desk.Go(func() { w.decide(owner) })
	third := w.disturb(ctx, long)
	all.Wait()
	stop()
	desk.Wait()
	sizes := w.settled(traefik, sandbox, third)
	checked := w.audited()
	if !t.Failed() && kept {
		w.summary(long, sizes, checked)
	}
	t.Log(w.lines())
}

// disturb reloads and kills until the end, from the test's own goroutine. It returns
// Traefik's size after a third of the time.
func (w *world) disturb(ctx context.Context, long time.Duration) (third size) {
	begin := time.Now()
	every := min(max(long/8, 3*time.Second), 20*time.Second)
	lastKill := begin
	for n := 1; ctx.Err() == nil; n++ {
		w.chain.SetDynamic(w.t, strings.Replace(w.yaml, "name: asker,", fmt.Sprintf("name: asker, expires: \"29%02d-01-01\",", n%100), 1))
		w.count("reloads of the configuration")
		if third == (size{}) && time.Since(begin) > long/3 {
			third = w.measure(w.chain.Process)
		}
		if time.Since(lastKill) > every && ctx.Err() == nil {
			w.kill()
			lastKill = time.Now()
		}
		pause(ctx, min(every/3, 2*time.Second))
	}
	return third
}

// settled waits until all is as small as before, and says how large it is.
func (w *world) settled(traefik, sandbox, third size) []string {
	t := w.t
	rig.Until(t, "the end of all that hostile commands started", func() bool { return len(w.survivors()) == 0 })
	// Connections stay open for 90 seconds unused, those of sessions that were cut off too.
	most := max(traefik.descriptors, third.descriptors) + 40
	rig.Until(t, "Traefik's descriptors to be as few as before", func() bool { return w.chain.Process.Descriptors() <= most })
	rig.Until(t, "sandboxd's descriptors to be as few as before", func() bool { return w.current().Descriptors() <= sandbox.descriptors+40 })
	lastTraefik, lastSandbox := w.measure(w.chain.Process), w.measure(w.current())
	if lastTraefik.mib > third.mib*3/2+64 {
		t.Errorf("Traefik grew from %s after a third of the time to %s", third, lastTraefik)
	}
	if lastSandbox.mib > sandbox.mib+64 {
		t.Errorf("sandboxd grew from %s to %s", sandbox, lastSandbox)
	}
	return []string{fmt.Sprintf("Traefik: %s at the start, %s after a third, %s at the end", traefik, third, lastTraefik),
		fmt.Sprintf("sandboxd: %s at the start, %s at the end", sandbox, lastSandbox)}
}

// audited checks the chain, and that each call that ran has its begin.
func (w *world) audited() string {
	w.current().Stop()
	out, err := exec.Command(rig.Binary(w.t, "sallyport"), "audit", "verify", w.audit()).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "whole") {
		w.t.Errorf("audit verify: %v\n%s", err, out)
	}
	begins := 0
	if err := audit.Lines(w.audit(), func(l audit.Line) bool {
		if r, ok := l.Record(); ok && r.Kind == audit.KindBegin {
			begins++
		}
		return true
	}); err != nil {
		w.t.Error(err)
	}
	ran, sent := w.counted("calls begun"), w.counted("calls sent")
	if begins < ran || begins > sent {
		w.t.Errorf("%d begins on the record; %d calls ran by their answer, %d were sent", begins, ran, sent)
	}
	for _, what := range []string{"calls begun", "hostile commands", "approved by the owner", "denied by the owner", "tokens rotated",
		"slow or broken connections", "kill -9 of sandboxd", "reloads of the configuration"} {
		if w.counted(what) == 0 {
			w.t.Errorf("%s: none; this run shows nothing of it", what)
		}
	}
	return fmt.Sprintf("The audit is whole and has %d begins: at least the %d calls whose answer says that they ran, at most the %d that were sent", begins, ran, sent)
}

func (w *world) lines() string {
	var b strings.Builder
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(w.counts)) {
		fmt.Fprintf(&b, "| %s | %d |\n", what, w.counts[what])
	}
	return b.String()
}

// summary writes docs/figures/soak.md.
func (w *world) summary(long time.Duration, sizes []string, checked string) {
	text := "# The mixed soak\n\nGenerated by `make soak`; do not edit. Clients of both transports through Traefik and the plugin, hostile commands, reloads of\n" +
		"the configuration, token rotation, approvals by `sallyport approve`, slow and broken connections, and `kill -9` of\n" +
		"`sandboxd`, all at once.\n\n" +
		fmt.Sprintf("Last run: %s, for %s.\n\n| | count |\n|---|--:|\n| lost answers | 0 |\n| crossed or wrong answers | 0 |\n| survivors of commands, but for those of a kill -9 | 0 |\n%s\n",
			time.Now().Format(time.DateOnly), long, w.lines())
	for _, line := range append(sizes, checked) {
		text += "- " + line + ".\n"
	}
	if err := os.WriteFile(filepath.Join(rig.Root(w.t), "docs", "figures", "soak.md"), []byte(text), 0o644); err != nil {
		w.t.Error(err)
	}
}

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
	long, err := time.ParseDuration(os.Getenv("SALLYPORT_SOAK_FOR"))
	if err != nil {
		t.Skip("not by itself: part of make soak")
	}
	rig.NeedRoot(t) // namespaces, a disk, two other users
	rig.NeedCommand(t, "curl")
	began := time.Now()
	w := newWorld(t)
	parts := []*part{w.traefik, w.sandbox, w.hub, w.egress, w.login}
	var first []size
	for _, p := range parts {
		first = append(first, w.measure(p))
	}
	if err := w.loginOnce(); err != nil { // later ones may be cut off
		t.Fatalf("a login: %v", err)
	}
	w.count(loggedIn)
	t.Logf("the chain runs after %s", time.Since(began).Round(time.Second))
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	var all sync.WaitGroup
	visit := func(ctx context.Context, y way, next call) { all.Go(func() { w.visit(ctx, y, next) }) }
	for _, how := range []rig.Transport{rig.SSE, rig.Streamable} {
		for range 2 {
			visit(ctx, w.toSandbox(w.chain.Token, how), w.echo)
		}
		visit(ctx, w.toSandbox(w.chain.Token, how), w.file())
		visit(ctx, w.toSandbox(w.asker, how), w.asked())
		visit(ctx, w.toServer("far", how), w.echoed)
	}
	visit(ctx, w.toServer("box", rig.Streamable), w.echoed)
	visit(ctx, w.toSandbox(w.chain.Token, rig.Streamable), w.hostile())
	out := w.toSandbox(w.chain.Token, rig.Streamable)
	out.parts = append(out.parts, w.egress)
	visit(ctx, out, w.fetches())
	all.Go(func() { w.rotate(ctx) })
	all.Go(func() { w.linger(ctx) })
	all.Go(func() { w.logins(ctx) })
	owner, stop := context.WithCancel(context.Background())
	var desk sync.WaitGroup
	desk.Go(func() { w.decide(owner) })
	third := w.disturb(ctx, long)
	all.Wait()
	stop()
	desk.Wait()
	t.Logf("all clients are done after %s", time.Since(began).Round(time.Second))
	sizes := w.settled(parts, first, third)
	t.Logf("all is settled after %s", time.Since(began).Round(time.Second))
	checked := w.audited()
	if !t.Failed() {
		w.summary(long, sizes, checked)
	}
	t.Log(w.lines())
}

// settled waits until all is as small as before, and says how large it is.
func (w *world) settled(parts []*part, first []size, third size) (said []string) {
	t := w.t
	rig.Until(t, "the end of all that hostile commands started", func() bool { return len(w.survivors()) == 0 })
	for i, p := range parts {
		most := first[i].descriptors + 40
		if p == w.traefik { // connections stay open for 90 seconds unused, those of sessions that were cut off too
			most = max(first[i].descriptors, third.descriptors) + 40
		}
		rig.Until(t, p.name+"'s descriptors to be as few as before", func() bool { return p.current().Descriptors() <= most }, p.current())
		last, line := w.measure(p), ""
		roof := first[i].mib + 64
		if p.name == "login" { // what passwords' argon2id takes, 64 MiB each, goes back to the system later
			roof += 128
		}
		if p == w.traefik {
			roof, line = third.mib*3/2+64, fmt.Sprintf(", %s after a third", third)
		}
		if last.mib > roof {
			t.Errorf("%s grew from %s to %s (at most %d MiB)", p.name, first[i], last, roof)
		}
		said = append(said, fmt.Sprintf("%s: %s at the start%s, %s at the end", p.name, first[i], line, last))
	}
	if n := forbidden.Load(); n != 0 {
		t.Errorf("%d connections came to a host that egress does not allow", n)
	}
	return said
}

// audited checks the chains, and that each call that ran has its begin.
func (w *world) audited() (said []string) {
	for _, c := range []struct {
		of        *part
		file, ran string
	}{
		{w.sandbox, w.audit(), "calls begun"}, {w.hub, w.hubAudit(), "calls of the hub's servers answered"},
		{w.egress, filepath.Join(w.dir, "egressaudit", "audit.jsonl"), "connections through egress"},
		{w.login, filepath.Join(w.dir, "loginaudit", "audit.jsonl"), ""},
	} {
		c.of.current().Stop()
		out, err := exec.Command(rig.Binary(w.t, "sallyport"), "audit", "verify", c.file).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "whole") {
			w.t.Errorf("%s: audit verify: %v\n%s", c.of.name, err, out)
		}
		begins, all := 0, 0
		if err := audit.Lines(c.file, func(l audit.Line) bool {
			if r, ok := l.Record(); ok {
				all++
				if r.Kind == audit.KindBegin || c.of == w.egress && r.Kind == audit.KindEvent {
					begins++
				}
			}
			return true
		}); err != nil {
			w.t.Error(err)
		}
		line := fmt.Sprintf("The audit of %s is whole: %d records", c.of.name, all)
		if c.ran != "" {
			ran, sent := w.counted(c.ran), w.counted("calls sent")
			if begins < ran || begins > sent {
				w.t.Errorf("%s: %d begins on the record; %d: %s; %d calls were sent", c.of.name, begins, ran, c.ran, sent)
			}
			line += fmt.Sprintf(", %d of them of a call or connection that began: at least the %d %s, at most the %d calls that were sent", begins, ran, c.ran, sent)
		}
		said = append(said, line)
	}
	for _, what := range []string{"calls begun", "hostile commands", "approved by the owner", "denied by the owner", "tokens rotated",
		"half requests", "requests byte by byte (slow loris)", "streams that nobody read", "half-open connections", "reloads of the configuration",
		"calls of the hub's servers answered", "connections through egress", "connections that egress refused", loggedIn,
		"kill -9 of sandboxd", "kill -9 of the hub", "kill -9 of egress", "kill -9 of login", "kill -9 of Traefik", "restarts of Traefik",
		"crashes of an http server of the hub", "kill -9 of processes of a stdio server of the hub", "full disks of the audit", "calls refused on a full disk"} {
		if w.counted(what) == 0 {
			w.t.Errorf("%s: none; this run shows nothing of it", what)
		}
	}
	return said
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
func (w *world) summary(long time.Duration, sizes, checked []string) {
	text := "# The mixed soak\n\nGenerated by `make soak`; do not edit. Clients of both transports through Traefik and the plugin, of the sandbox and of servers\n" +
		"of the hub, logins with revocation, commands that reach the Internet through egress, hostile commands, reloads of the\n" +
		"configuration, token rotation, approvals by `sallyport approve`, slow and broken connections, crashes of the hub's servers,\n" +
		"a full disk, and `kill -9` of each process of the chain, all at once.\n\n" +
		fmt.Sprintf("Last run: %s, for %s.\n\n| | count |\n|---|--:|\n| lost answers | 0 |\n| crossed or wrong answers | 0 |\n"+
			"| connections past egress's list | 0 |\n| survivors of commands, also after a kill -9 | 0 |\n%s\n",
			time.Now().Format(time.DateOnly), long, w.lines())
	for _, line := range append(sizes, checked...) {
		text += "- " + line + ".\n"
	}
	text += "\nNot in this run: a restart of Docker (`e2e/proxy` and `e2e/hub` kill and restart an engine of their own) and a step of the\n" +
		"clock: the programs are static, so no preloaded library can move their time, a time namespace moves only the monotonic clock,\n" +
		"and the machine's clock is not the test's to set.\n"
	if err := os.WriteFile(filepath.Join(rig.Root(w.t), "docs", "figures", "soak.md"), []byte(text), 0o644); err != nil {
		w.t.Error(err)
	}
}

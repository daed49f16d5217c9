package soak

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// disturb reloads, and takes one part after the other away, until the end, from the
// test's own goroutine; each at least once. It returns Traefik's size after a third of
// the time.
func (w *world) disturb(ctx context.Context, long time.Duration) (third size) {
	begin := time.Now()
	steps := []func(){
		func() { w.restart(w.sandbox, syscall.SIGKILL) },
		func() { w.restart(w.hub, syscall.SIGKILL) },
		w.upstreamCrash,
		func() { w.restart(w.egress, syscall.SIGKILL) },
		w.serverCrash,
		func() { w.restart(w.login, syscall.SIGKILL) },
		w.fullDisk,
		func() { w.restart(w.traefik, syscall.SIGKILL) },
		func() { w.restart(w.traefik, syscall.SIGTERM) },
	}
	every := min(long/time.Duration(len(steps)+2), 20*time.Second)
	last := begin
	for n, step := 1, 0; ctx.Err() == nil || step < len(steps); n++ {
		w.chain.SetDynamic(w.t, strings.Replace(w.yaml, "name: asker,", fmt.Sprintf("name: asker, expires: \"29%02d-01-01\",", n%100), 1))
		w.count("reloads of the configuration")
		if third == (size{}) && time.Since(begin) > long/3 {
			third = w.measure(w.traefik)
		}
		if time.Since(last) > every || ctx.Err() != nil {
			began := time.Now()
			steps[step%len(steps)]()
			w.t.Logf("disturbance %d took %s", step, time.Since(began).Round(time.Millisecond))
			step++
			last = time.Now()
		}
		pause(ctx, min(every/3, 2*time.Second))
	}
	return third
}

// upstreamCrash ends the server that the hub reaches over http; it comes back without
// its sessions.
func (w *world) upstreamCrash() {
	w.upstream.away(func() { w.far.crash(); w.answers("far") })
	w.count("crashes of an http server of the hub")
}

// serverCrash kills the processes of the hub's stdio server.
func (w *world) serverCrash() {
	w.upstream.away(func() {
		for _, pid := range withLine(filepath.Join(w.dir, "hub", "state", "stdio", "box", "box")) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended meanwhile
			w.count("kill -9 of processes of a stdio server of the hub")
		}
		w.answers("box")
	})
}

// answers waits until a new session with a server of the hub gets its answer.
func (w *world) answers(name string) {
	w.t.Helper()
	y := w.toServer(name, rig.Streamable)
	rig.Until(w.t, name+" answers again", func() bool {
		session, err := w.connect(y)
		if err != nil {
			return false
		}
		defer session.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		params, check := w.echoed()
		w.count("calls sent")
		result, err := session.CallTool(ctx, params)
		return err == nil && check(result) == ""
	}, w.hub.current())
}

// fullDisk fills the disk of the audit. Without a begin on the record no call runs, and
// once there is room again calls run as before.
func (w *world) fullDisk() {
	disk := filepath.Join(w.dir, "audit")
	filler := filepath.Join(disk, "filler")
	w.sandbox.away(func() {
		if err := fill(filler); err != nil {
			w.t.Errorf("filling the disk: %v", err)
		}
		w.refused()
		if err := os.Remove(filler); err != nil {
			w.t.Error(err)
		}
		rig.Until(w.t, "a call once there is room again", func() bool { return w.runs("true") }, w.sandbox.current())
	})
	w.count("full disks of the audit")
}

// refused uses up the room that the log had set aside, and looks that no call runs
// then: none leaves a trace.
func (w *world) refused() {
	w.t.Helper()
	y := w.toSandbox(w.chain.Token, rig.Streamable)
	var session *mcp.ClientSession
	rig.Until(w.t, "a session on a full disk", func() (ok bool) {
		var err error
		session, err = w.connect(y)
		return err == nil
	}, w.sandbox.current())
	defer session.Close()
	end := time.Now().Add(rig.Deadline)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for w.ran(session, "read_file", rig.Args{"path": "ca.pem"}) {
				if time.Now().After(end) {
					w.t.Error("calls run on a full disk")
					return
				}
			}
		})
	}
	all.Wait()
	for n := 0; n < 5 && !w.t.Failed(); {
		trace := rand.Text()
		if w.ran(session, "run_command", rig.Args{"command": "echo >" + trace}) {
			if time.Now().After(end) {
				w.t.Error("commands run on a full disk")
			}
			continue // the end of another call left room for this one
		}
		n++
		w.count("calls refused on a full disk")
		if _, err := os.Stat(filepath.Join(w.dir, "workspace", trace)); err == nil {
			w.t.Error("a call that was refused on a full disk has run")
		}
	}
}

// runs reports whether a command ran, in a session of its own.
func (w *world) runs(line string) bool {
	session, err := w.connect(w.toSandbox(w.chain.Token, rig.Streamable))
	if err != nil {
		return false
	}
	defer session.Close()
	return w.ran(session, "run_command", rig.Args{"command": line})
}

// ran reports whether a call ran.
func (w *world) ran(session *mcp.ClientSession, tool string, arguments rig.Args) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	w.count("calls sent")
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil || result.IsError {
		return false
	}
	w.count("calls begun")
	return true
}

// fill takes all room of the file's disk.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	at := int64(0)
	for step := int64(1 << 30); step >= 4096; step /= 2 {
		for syscall.Fallocate(int(f.Fd()), 0, at, step) == nil {
			at += step
		}
	}
	if at == 0 {
		return fmt.Errorf("%s: no room could be taken", path)
	}
	return nil
}

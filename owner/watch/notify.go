package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/sallyport-dev/sallyport/internal/approval"
	"github.com/sallyport-dev/sallyport/internal/desk"
	"github.com/sallyport-dev/sallyport/internal/ownersock"
	"github.com/sallyport-dev/sallyport/internal/terminal"
	"github.com/sallyport-dev/sallyport/owner/approve"
)

// notified are the events that the owner's program hears of.
var notified = []string{"waiting", "decided", "stopped", "paused", "resumed"}

// The bounds of the owner's program: how long one run may take, and how many
// events wait for it; beyond that they are dropped and said.
const (
	programBound = 30 * time.Second
	maxQueued    = 64
	retryAfter   = 2 * time.Second
)

// A notice is what the program gets on its standard input, as one JSON object.
type notice struct {
	desk.Event
	Process string `json:"process"`
}

// notify runs program for each event of the sockets until ctx ends.
func notify(ctx context.Context, s approve.Sockets, program string, stdout, stderr io.Writer) int {
	queue := make(chan notice, maxQueued)
	var listeners sync.WaitGroup
	said := &lockedWriter{w: stderr}
	for _, path := range s.Paths {
		listeners.Go(func() { listen(ctx, s, path, queue, said) })
	}
	go func() { listeners.Wait(); close(queue) }()
	fmt.Fprintf(stdout, "Running %s for what happens at %d servers.\n", terminal.Escape(program), len(s.Paths))
	for n := range queue {
		if err := tell(ctx, program, n); err != nil && ctx.Err() == nil {
			fmt.Fprintf(said, "sallyport watch: %s: %s\n", terminal.Escape(program), terminal.Escape(err.Error()))
		}
	}
	return 0
}

// tell runs the program once. The event is on its standard input and nowhere in
// its arguments, which other accounts can read.
func tell(ctx context.Context, program string, n notice) error {
	raw, err := json.Marshal(n)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, programBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, program)
	cmd.Stdin = bytes.NewReader(append(raw, '\n'))
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %.200s", err, out)
	}
	return nil
}

// listen follows one socket, also when its server starts again. What waits
// already when it comes is told once.
func listen(ctx context.Context, s approve.Sockets, path string, queue chan<- notice, stderr io.Writer) {
	told := map[string]bool{}
	put := func(n notice) {
		if n.Kind == "waiting" {
			if told[n.ID] {
				return
			}
			told[n.ID] = true
		}
		select {
		case queue <- n:
		default:
			fmt.Fprintln(stderr, "sallyport watch: the program is too slow, an event was dropped")
		}
	}
	for down := false; ctx.Err() == nil; {
		err := follow(ctx, s, path, put)
		if err != nil && !down {
			fmt.Fprintf(stderr, "sallyport watch: %s; trying again\n", terminal.Escape(err.Error()))
		}
		down = err != nil
		select {
		case <-ctx.Done():
		case <-time.After(retryAfter):
		}
	}
}

// follow listens until the server or ctx ends.
func follow(ctx context.Context, s approve.Sockets, path string, put func(notice)) error {
	c, err := s.Connect(ctx, path)
	if err != nil {
		return err
	}
	defer c.Close()
	var status ownersock.Status
	if err := c.Do(ownersock.Request{Op: ownersock.OpStatus}, &status); err != nil {
		return err
	}
	return c.Events(ctx, func() {
		for _, w := range waiting(ctx, s, path) {
			put(notice{desk.Event{Kind: "waiting", Time: w.Asked.UTC(), ID: w.ID, Principal: w.Principal,
				Server: w.Server, Tool: w.Tool}, status.Process})
		}
	}, func(e desk.Event) {
		if slices.Contains(notified, e.Kind) {
			put(notice{e, status.Process})
		}
	})
}

// waiting asks on a connection of its own, since the other one listens.
func waiting(ctx context.Context, s approve.Sockets, path string) (list []approval.Waiting) {
	c, err := s.Connect(ctx, path)
	if err != nil {
		return nil
	}
	defer c.Close()
	_ = c.Do(ownersock.Request{Op: ownersock.OpPending}, &list)
	return list
}

// lockedWriter lets several goroutines write lines.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// The bounds of background commands.
const (
	maxRunning = 8  // of one owner
	maxAllRun  = 16 // of all owners
	maxKept    = 64 // of all owners, running or ended; each holds two output limits
)

// table holds the background commands, oldest first.
type table struct {
	mu   sync.Mutex
	list []*Command
}

// StartFor starts a background command, which outlives ctx, and gives it a
// handle that only owner can use. The oldest command that has ended makes room.
// The table is locked meanwhile, so that no two starts share the last place.
func (r *Runner) StartFor(owner, line, workdir string, most time.Duration) (*Command, error) {
	t := &r.table
	t.mu.Lock()
	defer t.mu.Unlock()
	running, all, ended := 0, 0, -1
	for i, c := range t.list {
		switch {
		case c.running():
			all++
			if c.owner == owner {
				running++
			}
		case ended < 0:
			ended = i
		}
	}
	full := len(t.list) >= maxKept
	if running >= maxRunning {
		return nil, fmt.Errorf("%d commands of yours already run in the background, which is the limit: stop one with stop_command%s", running, t.handles(owner))
	}
	if all >= maxAllRun || full && ended < 0 {
		return nil, errors.New("too many background commands run: try again later")
	}
	c, err := r.start(context.Background(), line, workdir, most, func() {})
	if err != nil {
		return nil, err
	}
	if full {
		t.list = slices.Delete(t.list, ended, ended+1)
	}
	c.Handle, c.owner = rand.Text(), owner
	t.list = append(t.list, c)
	return c, nil
}

// Forget drops a background command whose handle nobody was told.
func (r *Runner) Forget(c *Command) {
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	r.table.list = slices.DeleteFunc(r.table.list, func(other *Command) bool { return other == c })
}

// Find returns the background command with this handle, if it is owner's. The
// error lists what owner may have lost sight of.
func (r *Runner) Find(handle, owner string) (*Command, error) {
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	for _, c := range r.table.list {
		if c.Handle == handle && c.owner == owner {
			return c, nil
		}
	}
	return nil, fmt.Errorf("there is no background command with this handle%s", r.table.handles(owner))
}

// handles lists owner's commands. t is locked.
func (t *table) handles(owner string) string {
	var b strings.Builder
	for _, c := range t.list {
		if c.owner == owner {
			how := "ended"
			if c.running() {
				how = "running"
			}
			fmt.Fprintf(&b, "\n%s (%s): %.80q", c.Handle, how, c.line)
		}
	}
	if b.Len() == 0 {
		return "; none of yours is known (they end with the server)"
	}
	return "; yours are:" + b.String()
}

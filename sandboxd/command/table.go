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

// maxKept is how many background commands of all owners are kept, running or
// ended; each holds two output limits.
const maxKept = 64

// table holds the background commands, oldest first.
type table struct {
	mu   sync.Mutex
	list []*Command
}

// StartFor starts a background command, which outlives the call, and gives it a
// handle that only owner can use. The oldest command that has ended makes room, of
// owner's own where half of all are owner's.
func (r *Runner) StartFor(owner, line, workdir string, most time.Duration) (*Command, error) {
	c, err := r.start(context.Background(), owner, line, workdir, most, background)
	t := &r.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if errors.Is(err, errFull) {
		return nil, fmt.Errorf("%w%s", err, t.handles(owner))
	}
	if err != nil {
		return nil, err
	}
	c.Handle = rand.Text()
	if len(t.list) >= maxKept { // at most half of them run
		mine := 0
		for _, c := range t.list {
			if c.owner == owner {
				mine++
			}
		}
		ended := slices.IndexFunc(t.list, func(c *Command) bool {
			return !c.running() && (mine < maxKept/2 || c.owner == owner)
		})
		t.list = slices.Delete(t.list, ended, ended+1)
	}
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

// handles lists the commands of owner. t is locked.
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

package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// The bounds of what runs at once. Each command holds one of this server's
// threads, and for a moment several of its own: without a bound, a burst of
// calls would use up a container's pids limit, and a Go program that gets no
// thread ends. Of each kind one principal has half at most: whoever fills that share
// waits for its own commands, and no other principal waits for it.
const (
	maxOfKind = 16               // of all principals: commands that a call waits for, in the background, and walks
	maxShare  = maxOfKind / 2    // of one principal, of each kind
	maxStarts = 4                // being started, of all kinds
	patience  = 25 * time.Second // of a call that waits for a place: clients give up after 60
)

// kind is who waits for a command: the call that started it, or nobody. A walk over
// the workspace is no command, but holds as much memory as the files that it meets ask for.
type kind int

const (
	waitedFor kind = iota
	background
	walk
	kinds
)

// admission is the one place that decides whether a command may run now.
type admission struct {
	mu      sync.Mutex
	all     [kinds]int
	of      map[string]*[kinds]int
	waiting []*waiter // in the order in which they came
	starts  chan struct{}
}

type waiter struct {
	owner string
	kind  kind
	let   chan struct{} // closed when it has a place
}

func newAdmission() *admission {
	return &admission{of: map[string]*[kinds]int{}, starts: make(chan struct{}, maxStarts)}
}

// enter gets a place, which leave gives back. A call waits for one, at most for
// patience; the background is refused at once. Errors tell a model what to do.
func (a *admission) enter(ctx context.Context, owner string, k kind) (leave func(), err error) {
	leave = sync.OnceFunc(func() { a.leave(owner, k) })
	a.mu.Lock()
	if a.take(owner, k) {
		a.mu.Unlock()
		return leave, nil
	}
	if k == background {
		defer a.mu.Unlock()
		return nil, a.full(owner, k)
	}
	w := &waiter{owner, k, make(chan struct{})}
	a.waiting = append(a.waiting, w)
	a.mu.Unlock()
	enough := time.NewTimer(patience)
	defer enough.Stop()
	select {
	case <-w.let:
		return leave, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-enough.C:
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	at := slices.Index(a.waiting, w)
	if at < 0 {
		return leave, nil // just now
	}
	a.waiting = slices.Delete(a.waiting, at, at+1)
	if err == nil {
		err = a.full(owner, k)
	}
	return nil, err
}

// take gives owner a place if there is one. a is locked.
func (a *admission) take(owner string, k kind) bool {
	mine := a.of[owner]
	if a.all[k] >= maxOfKind || mine != nil && mine[k] >= maxShare {
		return false
	}
	if mine == nil {
		mine = &[kinds]int{}
		a.of[owner] = mine
	}
	mine[k]++
	a.all[k]++
	return true
}

func (a *admission) leave(owner string, k kind) {
	a.mu.Lock()
	defer a.mu.Unlock()
	mine := a.of[owner]
	a.all[k]--
	if mine[k]--; *mine == [kinds]int{} {
		delete(a.of, owner)
	}
	a.waiting = slices.DeleteFunc(a.waiting, func(w *waiter) bool {
		let := a.take(w.owner, w.kind)
		if let {
			close(w.let)
		}
		return let
	})
}

// errFull is the principal's own doing: its running commands are worth telling.
var errFull = errors.New("commands of yours already run in the background, which is the limit: stop one with " +
	"stop_command")

// full says why there is no place. a is locked.
func (a *admission) full(owner string, k kind) error {
	mine, noun := a.of[owner], "commands"
	if k == walk {
		noun = "lists and searches"
	}
	switch {
	case k == background && mine != nil && mine[k] >= maxShare:
		return fmt.Errorf("%d %w", maxShare, errFull)
	case k == background:
		return errors.New("too many background commands run: try again later")
	case mine != nil && mine[k] >= maxShare:
		return fmt.Errorf("%d %s of yours run already, which is the limit for one principal: try again when "+
			"one of them has ended", maxShare, noun)
	}
	return fmt.Errorf("%d %s run already, which is the limit: try again when one of them has ended", maxOfKind, noun)
}

package owner

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Throttle delays guesses of the password, per address and of strangers in total. It
// never locks out: a browser that signed in before waits for its own failures only.
type Throttle struct {
	Now func() time.Time

	mu      sync.Mutex
	callers map[string]*failures
	total   failures // of strangers
}

type failures struct {
	count, waiting int
	last           time.Time
}

const (
	forgetAfter = 10 * time.Minute
	maxCallers  = 1000
	maxWaiting  = 16 // strangers' guesses that wait at once
	maxOwn      = 4  // those of one address
	maxDelay    = 8 * time.Second
)

// ErrBusy is returned where too many guesses wait already.
var ErrBusy = errors.New("too many attempts to sign in at once: try again in a few seconds")

// delay is what the next guess waits: nothing for the first few failures, then half a
// second, doubled each time.
func (f *failures) delay(now time.Time, free int) time.Duration {
	if now.Sub(f.last) > forgetAfter {
		f.count = 0
	}
	if f.count <= free {
		return 0
	}
	return min(250*time.Millisecond<<min(f.count-free, 6), maxDelay)
}

// Try runs a check when the caller's turn has come, and returns its result.
func (t *Throttle) Try(ctx context.Context, caller string, known bool, check func() bool) (bool, error) {
	t.mu.Lock()
	own, now := t.of(caller), t.Now()
	counted, wait := []*failures{own}, own.delay(now, 1)
	if !known {
		counted, wait = append(counted, &t.total), max(wait, t.total.delay(now, 10))
	}
	if own.waiting >= maxOwn || !known && t.total.waiting >= maxWaiting {
		t.mu.Unlock()
		return false, ErrBusy
	}
	for _, f := range counted {
		f.waiting++
	}
	t.mu.Unlock()
	ok, err := false, error(nil)
	select {
	case <-time.After(wait):
		ok = check()
	case <-ctx.Done():
		err = ctx.Err()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range counted {
		f.waiting--
		if !ok {
			f.count, f.last = f.count+1, t.Now()
		}
	}
	if ok {
		own.count = 0
	}
	return ok, err
}

// of finds the failures of an address. A full table is emptied: the delay in total stays.
func (t *Throttle) of(caller string) *failures {
	if t.callers[caller] == nil {
		if t.callers == nil || len(t.callers) >= maxCallers {
			t.callers = map[string]*failures{}
		}
		t.callers[caller] = &failures{}
	}
	return t.callers[caller]
}

package tool

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Of the commands that run at once, one caller has half at most: whoever fills
// his share waits for commands of his own, and no other caller waits for him.
const (
	maxShare   = 8
	shareBound = 25 * time.Second // with the wait for a place in package command: clients give up after 60
)

// shares counts what each caller's run_command has running.
type shares struct {
	mu sync.Mutex
	of map[string]*share
}

type share struct {
	places chan struct{}
	users  int // callers that run or wait: at none it is forgotten
}

// enter waits for a place in owner's share. leave gives it back.
func (s *shares) enter(ctx context.Context, owner string) (leave func(), err error) {
	mine := s.join(owner)
	patience := time.NewTimer(shareBound)
	defer patience.Stop()
	select {
	case mine.places <- struct{}{}:
		return func() { <-mine.places; s.part(owner) }, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-patience.C:
		err = fmt.Errorf("%d commands of yours run already, which is the limit for one caller: try again when one of them has ended", maxShare)
	}
	s.part(owner)
	return nil, err
}

func (s *shares) join(owner string) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := s.of[owner]
	if mine == nil {
		mine = &share{places: make(chan struct{}, maxShare)}
		s.of[owner] = mine
	}
	mine.users++
	return mine
}

func (s *shares) part(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[owner].users--; s.of[owner].users == 0 {
		delete(s.of, owner)
	}
}

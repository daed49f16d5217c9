// Package session holds the open MCP sessions of a server and who owns each.
package session

import (
	"errors"
	"sync"
	"time"
)

const (
	// Idle is how long a session without an open request lives.
	Idle = 30 * time.Minute
	// sessionYield is how long a session must have been idle to be evicted for a
	// new one when the table is full: many clients never end their sessions.
	sessionYield = 5 * time.Minute
	// ownYield is the same for a new session of the same principal: a client that
	// opens a session for each call must not shut itself out.
	ownYield = 30 * time.Second
)

// The reasons for which a request gets no session.
var (
	ErrFull     = errors.New("too many sessions are open; end one or try again later")
	ErrUnknown  = errors.New("session not found; it has ended, start a new one")
	ErrNotOwner = errors.New("this session belongs to another principal")
)

// Table are the open sessions of one server and who owns each of them. A
// session belongs to the principal that opened it and answers to nobody else.
type Table struct {
	max int

	mu   sync.Mutex
	all  map[*Session]struct{} // those without an ID too
	byID map[string]*Session
}

// A Session is one entry of Table.
type Session struct {
	table     *Table
	principal string

	// guarded by table.mu
	id    string
	end   func()
	open  int // requests that use it now
	last  time.Time
	ended bool
}

// NewTable returns a table with room for max sessions.
func NewTable(max int) *Table {
	return &Table{max: max, all: map[*Session]struct{}{}, byID: map[string]*Session{}}
}

// Reserve takes a place for a session that principal opens. The caller must
// Leave it; a session that has no ID by then is forgotten.
func (t *Table) Reserve(principal string) (*Session, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.all) >= t.max && !t.evict(principal) {
		return nil, ErrFull
	}
	s := &Session{table: t, principal: principal, open: 1, last: time.Now()}
	t.all[s] = struct{}{}
	return s, nil
}

// Bind gives the session its ID. end is called at most once, when the table
// ends the session; it must bring the session down.
func (s *Session) Bind(id string, end func()) {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	if s.ended {
		go end()
		return
	}
	s.id, s.end = id, end
	s.table.byID[id] = s
}

// Enter finds the session id for a request of principal. The caller must Leave.
func (t *Table) Enter(id, principal string) (*Session, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.byID[id]
	if s == nil {
		return nil, ErrUnknown
	}
	if s.principal != principal {
		return nil, ErrNotOwner
	}
	s.open++
	return s, nil
}

// Leave ends one request's use of the session.
func (s *Session) Leave() {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	s.open--
	s.last = time.Now()
	if s.id == "" {
		s.forget()
	}
}

// End forgets the session, which has ended by itself.
func (s *Session) End() {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	s.forget()
}

// Len is the number of open sessions.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.all)
}

// Busy reports whether any request uses a session.
func (t *Table) Busy() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range t.all {
		if s.open > 0 {
			return true
		}
	}
	return false
}

// EndIdle ends the sessions that no request has used for at least d; with 0
// every session without an open request.
func (t *Table) EndIdle(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range t.all {
		if s.open == 0 && time.Since(s.last) >= d {
			s.drop()
		}
	}
}

// EndAll ends every session.
func (t *Table) EndAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range t.all {
		s.drop()
	}
}

// evict ends the session that has been idle longest among those that may be
// evicted for one of principal. What somebody holds beyond an eighth of the table more
// than principal yields at once, however often it is used: nobody shuts others out.
func (t *Table) evict(principal string) bool {
	held := map[string]int{}
	for s := range t.all {
		held[s.principal]++
	}
	var oldest *Session
	for s := range t.all {
		wait := sessionYield
		switch {
		case held[s.principal] > held[principal]+t.max/8:
			wait = 0
		case s.principal == principal:
			wait = ownYield
		}
		if s.open == 0 && time.Since(s.last) >= wait && (oldest == nil || s.last.Before(oldest.last)) {
			oldest = s
		}
	}
	if oldest == nil {
		return false
	}
	oldest.drop()
	return true
}

// drop forgets the session and brings it down. Ending may wait for a handler,
// so it gets a goroutine of its own.
func (s *Session) drop() {
	if s.end != nil && !s.ended {
		go s.end()
	}
	s.forget()
}

func (s *Session) forget() {
	s.ended = true
	delete(s.table.all, s)
	if s.table.byID[s.id] == s {
		delete(s.table.byID, s.id)
	}
}

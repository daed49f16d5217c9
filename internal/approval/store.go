package approval

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Store holds what waits. The zero value is not ready; see New.
type Store struct {
	now    func() time.Time
	expiry time.Duration
	notify func(Waiting)

	mu      sync.Mutex
	byKey   map[Key]*request
	byID    map[string]*request
	allowed []standing
}

// request is one question to the owner. It is in the store until its decision
// has been used, was told, or has expired.
type request struct {
	Waiting
	key     Key
	settled chan struct{} // closed with the decision or the expiry
	outcome Outcome       // 0 until settled
	reason  string
	timer   *time.Timer
}

// standing is an approval that is in force for a while.
type standing struct {
	key   Key // File is empty; Digest too for a tool
	until time.Time
}

// expiry is shorter in a test only.
var expiry = Expiry

// New returns an empty store. notify, which may be nil, hears of each new
// request; it must not block.
func New(notify func(Waiting)) *Store {
	return &Store{now: time.Now, expiry: expiry, notify: notify, byKey: map[Key]*request{}, byID: map[string]*request{}}
}

// Wait holds a call until the owner has decided, at most r.Hold. Only with
// Approved may the call run, once; the caller then compares r.Key.File with the
// file again.
func (s *Store) Wait(ctx context.Context, r Request) Verdict {
	if r.Key.Digest == "" {
		return Verdict{Outcome: Unclear}
	}
	hold := time.NewTimer(r.Hold)
	defer hold.Stop()
	for {
		q, v := s.attach(r)
		if q == nil {
			return v
		}
		select {
		case <-q.settled:
			if v, ok := s.take(q); ok {
				return v
			}
			// An equal call used the decision: this one asks again.
		case <-hold.C:
			return s.leave(q, Verdict{Outcome: Pending, ID: q.ID, Until: q.Expires})
		case <-ctx.Done():
			return s.leave(q, Verdict{Outcome: Gone, ID: q.ID})
		}
	}
}

// attach finds the request for r's key or makes one. Without a request the
// verdict is final.
func (s *Store) attach(r Request) (*request, Verdict) {
	s.mu.Lock()
	if s.allows(r.Key) {
		s.mu.Unlock()
		return nil, Verdict{Outcome: Approved}
	}
	if q := s.byKey[r.Key]; q != nil {
		q.Held++
		s.mu.Unlock()
		return q, Verdict{}
	}
	if s.full(r) {
		s.mu.Unlock()
		return nil, Verdict{Outcome: TooMany}
	}
	q := s.ask(r)
	shown := q.Waiting
	s.mu.Unlock()
	if s.notify != nil {
		s.notify(shown)
	}
	return q, Verdict{}
}

// full reports that r has no room: its principal's requests are too many, or together
// too large for one principal who would leave room for others, or all are too large and
// this one's are not small.
func (s *Store) full(r Request) bool {
	waiting, own := 0, len(r.Arguments)+len(r.Preview)
	bytes, alone := own, true
	for _, q := range s.byID {
		size := len(q.Arguments) + len(q.Preview)
		bytes += size
		if q.Principal == r.Principal {
			own, alone = own+size, false
			if q.outcome == 0 {
				waiting++
			}
		}
	}
	return waiting >= MaxWaiting || bytes > maxBytes && own > small || own > maxBytes/2 && !alone
}

// ask makes a request. s.mu is held.
func (s *Store) ask(r Request) *request {
	q := &request{key: r.Key, settled: make(chan struct{}), Waiting: Waiting{
		ID: newID(), Principal: r.Principal, Session: r.Session, Server: r.Server, Tool: r.Tool,
		Arguments: string(r.Arguments),
		Preview:   r.Preview,
		Asked:     s.now(), Expires: s.now().Add(s.expiry), Held: 1,
	}}
	s.byKey[q.key], s.byID[q.ID] = q, q
	q.timer = time.AfterFunc(s.expiry, func() { s.expire(q) })
	return q
}

// newID is short enough to be typed and too long to be guessed by accident.
func newID() string { return strings.ToLower(rand.Text()[:8]) }

// take gives q's outcome to one of the calls that wait for it. An approval is
// for one of them; a denial and an expiry are for all.
func (s *Store) take(q *request) (Verdict, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q.Held--
	v := Verdict{Outcome: q.outcome, ID: q.ID, Reason: q.reason}
	if q.outcome == Approved && s.byKey[q.key] != q {
		return Verdict{}, false // used, or expired meanwhile
	}
	s.forget(q)
	return v, true
}

func (s *Store) leave(q *request, v Verdict) Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	q.Held--
	return v
}

// forget drops q. s.mu is held.
func (s *Store) forget(q *request) {
	q.timer.Stop()
	if s.byKey[q.key] == q {
		delete(s.byKey, q.key)
	}
	delete(s.byID, q.ID)
}

// expire ends a request that nobody has decided on, and a decision that no
// call has used.
func (s *Store) expire(q *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID[q.ID] != q {
		return
	}
	if q.outcome == 0 {
		q.outcome = Expired
		close(q.settled)
	}
	s.forget(q)
}

// Decide settles the request that d names. It returns nil only if this
// decision is the one that counts. record, which may be nil, is called before
// it does; with its error nothing is decided.
func (s *Store) Decide(d Decision, record func(Waiting) error) error {
	if d.Scope == "" {
		d.Scope = Once
	}
	if d.Approve && !slices.Contains([]string{Once, Digest, Tool}, d.Scope) {
		return ErrScope
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.byID[d.ID]
	if q == nil || q.outcome != 0 || !s.now().Before(q.Expires) {
		return ErrUnknown
	}
	if record != nil {
		if err := record(q.Waiting); err != nil {
			return fmt.Errorf("nothing was decided: %w", err)
		}
	}
	if q.outcome, q.reason = Denied, d.Reason; d.Approve {
		q.outcome, q.reason = Approved, ""
		s.allow(q.key, d.Scope)
	}
	// From now on it is the decision that expires.
	q.timer.Reset(s.expiry)
	close(q.settled)
	return nil
}

// allow puts a standing approval in force. s.mu is held.
func (s *Store) allow(k Key, scope string) {
	k.File = ""
	if scope == Tool {
		k.Digest = ""
	}
	if scope != Once {
		s.allowed = append(s.allowed, standing{k, s.now().Add(Standing)})
	}
}

// allows reports whether a standing approval covers k. s.mu is held.
func (s *Store) allows(k Key) bool {
	s.allowed = slices.DeleteFunc(s.allowed, func(a standing) bool { return !s.now().Before(a.until) })
	k.File = ""
	tool := k
	tool.Digest = ""
	return slices.ContainsFunc(s.allowed, func(a standing) bool { return a.key == k || a.key == tool })
}

// Waiting lists what waits for a decision, the oldest first.
func (s *Store) Waiting() []Waiting {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []Waiting{}
	for _, q := range s.byID {
		if q.outcome == 0 {
			list = append(list, q.Waiting)
		}
	}
	slices.SortFunc(list, func(a, b Waiting) int { return a.Asked.Compare(b.Asked) })
	return list
}

// Revoke ends every standing approval, of principal only unless it is "". It
// returns how many there were.
func (s *Store) Revoke(principal string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.allowed)
	s.allowed = slices.DeleteFunc(s.allowed, func(a standing) bool {
		return principal == "" || a.key.Principal == principal
	})
	return before - len(s.allowed)
}

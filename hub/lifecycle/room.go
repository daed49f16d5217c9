package lifecycle

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// roomReserve is how many processes and threads a server is taken to need
	// until it has started: Node has 11 to 15, Python a few.
	roomReserve = 24
	// settle is how long a started server may take to have its threads.
	settle = 3 * time.Second
	// tightFor is how long after a lack of room an unasked end is put down to it.
	tightFor = 30 * time.Second
)

// roomWait is how long a start waits for a server that becomes idle: less than
// the minute after which many clients give up.
var roomWait = 45 * time.Second

// Room is what the processes of all servers share. Where it is full the one
// idle longest is evicted, whosever it is; its client gets another when it
// comes back.
type Room struct {
	// Count measures the processes and threads that are there, the hub's own
	// among them, and how many there may be. nil: there is no bound.
	Count func() (now, most int)

	mu      sync.Mutex
	held    map[*slot]bool
	tight   time.Time     // when a start last found no room
	changed chan struct{} // closed when a slot is given back
}

// slot is one process, or one that is about to start.
type slot struct {
	room  *Room
	since time.Time
	ch    *channel // nil until it has started
}

// enter takes a slot for a process of s, or says that all are busy.
func (r *Room) enter(ctx context.Context, s *Server) (*slot, error) {
	if r == nil {
		return nil, nil
	}
	for end := time.Now().Add(roomWait); ; {
		late := time.Now().After(end) // before the look, so that the last one comes after it
		p, changed := r.try()
		if p != nil {
			return p, nil
		}
		if r.makeWay() {
			continue
		}
		if late {
			now, most := r.Count()
			return nil, &StateError{s.cfg.Name, "busy",
				fmt.Sprintf("all servers that run are at work, and there is no room for another process: "+
					"%d of %d processes and threads (MCP_MAX_PROCESSES)", now, most), 5 * time.Second}
		}
		select {
		case <-changed:
		case <-time.After(50 * time.Millisecond): // an idle one is not announced
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.ctx.Done():
			return nil, s.gone()
		}
	}
}

// try takes a slot if there is room.
func (r *Room) try() (*slot, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held == nil {
		r.held, r.changed = map[*slot]bool{}, make(chan struct{})
	}
	if len(r.held) > 0 && r.Count != nil {
		young := 1
		for p := range r.held {
			if time.Since(p.since) < settle {
				young++
			}
		}
		if now, most := r.Count(); now+young*roomReserve > most {
			r.tight = time.Now()
			return nil, r.changed
		}
	}
	p := &slot{room: r, since: time.Now()}
	r.held[p] = true
	return p, nil
}

// makeWay ends the longest idle process, and reports whether there was one.
func (r *Room) makeWay() bool {
	r.mu.Lock()
	var oldest *channel
	var idle time.Duration
	for p := range r.held {
		if p.ch == nil || p.ch.server.cfg.KeepAlive || p.ch.held() {
			continue
		}
		if d := p.ch.Idle(); d > idle {
			oldest, idle = p.ch, d
		}
	}
	r.mu.Unlock()
	if oldest == nil {
		return false
	}
	if oldest.retire(0) {
		oldest.Close()
	}
	return true
}

// started notes whose slot it is.
func (p *slot) started(ch *channel) {
	if p != nil {
		p.room.mu.Lock()
		defer p.room.mu.Unlock()
		p.ch = ch
	}
}

// leave gives a slot back.
func (p *slot) leave() {
	if p == nil {
		return
	}
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	if p.room.held[p] {
		delete(p.room.held, p)
		close(p.room.changed)
		p.room.changed = make(chan struct{})
	}
}

// short reports that a server may have ended because there was no room: it could
// start no further thread.
func (r *Room) short() bool {
	if r == nil || r.Count == nil {
		return false
	}
	now, most := r.Count()
	r.mu.Lock()
	defer r.mu.Unlock()
	return now+2*roomReserve > most || time.Since(r.tight) < tightFor && !r.tight.IsZero()
}

// maxTries is how often a call is taken to a server that was evicted before
// the call could be sent.
const maxTries = 5

// restless says that a server never stayed long enough.
func (s *Server) restless() error {
	return &StateError{s.cfg.Name, "busy", "others took its place each time before the call could be sent",
		5 * time.Second}
}

// firstUse is how long a process that was just started is kept for the call that
// it was started for.
const firstUse = 500 * time.Millisecond

// held reports a channel that was started for somebody who is about to use it.
func (ch *channel) held() bool {
	ready := ch.ready.Load()
	return ready == 0 || !ch.used.Load() && time.Since(time.Unix(0, ready)) < firstUse
}

// retire marks an idle channel as ending, unless a call came in between. successors start
// in its place, which is nobody else's meanwhile.
func (ch *channel) retire(successors int) bool {
	if !ch.Link.Retire() {
		return false
	}
	ch.server.mu.Lock()
	defer ch.server.mu.Unlock()
	ch.asked = true
	ch.server.starting += successors
	return true
}

// room allows one more channel, at the cost of the longest idle one.
func (s *Server) room() error {
	for looks := 0; ; looks++ {
		oldest, full := s.oldest()
		switch {
		case !full:
			return nil
		case oldest == nil && looks < 40: // for twice firstUse; by looks, for a busy machine misses the time
			time.Sleep(firstUse / 20)
		case oldest == nil:
			return &StateError{s.cfg.Name, "busy", fmt.Sprintf("%d clients use it at the same time", s.cfg.Most),
				5 * time.Second}
		case oldest.retire(1):
			oldest.Close()
			return nil
		}
	}
}

// oldest takes a slot, or reports that there is none, and who is idle longest.
func (s *Server) oldest() (oldest *channel, full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var idle time.Duration
	staying := 0
	for ch := range s.channels {
		if ch.asked { // it makes room for somebody else
			continue
		}
		if staying++; ch.held() {
			continue
		}
		if d := ch.Idle(); d > idle {
			oldest, idle = ch, d
		}
	}
	if full = staying+s.starting >= s.cfg.Most; !full {
		s.starting++
	}
	return oldest, full
}

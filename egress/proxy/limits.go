package proxy

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sallyport-dev/sallyport/egress/decision"
	"github.com/sallyport-dev/sallyport/internal/egressrule"
	"github.com/sallyport-dev/sallyport/internal/egresswire"
)

// Limits bound what one command may use, and one principal at once.
type Limits struct {
	Open      int           // connections of a command at once
	Principal int           // connections of all commands of a principal at once
	Total     int           // connections of a command in its life, refused ones included
	Refusals  int           // of a principal in an hour that have a record of their own; more are counted
	Hour      int           // connections of a principal in an hour that are allowed, each with its records
	Bytes     int64         // of a command in its life, both ways together
	Head      time.Duration // for a request's head, and for a ClientHello
	Idle      time.Duration // without a byte in either direction
	Life      time.Duration // of one connection
}

// DefaultLimits leave package managers alone: the busiest open a few dozen
// connections and fetch some hundred megabytes.
var DefaultLimits = Limits{
	Open: 128, Principal: 512, Total: 4096, Refusals: 20_000, Hour: 50_000, Bytes: 4 << 30,
	Head: 10 * time.Second, Idle: 5 * time.Minute, Life: time.Hour,
}

// A lease is a command while it runs.
type lease struct {
	command  egresswire.Command
	granted  egressrule.List
	ctx      context.Context // ends with the command
	refusals chan egresswire.Refusal
	bytes    atomic.Int64

	mu          sync.Mutex
	open, total int
	over        bool // Total was reached, which is on the record
	counted     int  // refusals without a record of their own
}

// take counts a connection in. recorded is false where refusals are only
// counted, so that a command cannot fill the disk with them.
func (s *Server) take(l *lease) (refusal *decision.Refusal, recorded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total++
	if l.total > s.Limits.Total {
		recorded = !l.over
		l.over = true
		return decision.Refuse(decision.TooMany, "This command has made %d connections, which is the limit. Split "+
			"the work into several commands.",
			s.Limits.Total), recorded
	}
	if l.open >= s.Limits.Open {
		return decision.Refuse(decision.TooMany, "This command has %d connections open, which is the limit. Use "+
			"fewer at once.", l.open), true
	}
	if s.principals[l.command.Principal] >= s.Limits.Principal {
		return decision.Refuse(decision.TooMany, "The commands of %s have %d connections open, which is the limit. "+
			"Wait until some have ended.",
			l.command.Principal, s.Limits.Principal), true
	}
	if l.bytes.Load() > s.Limits.Bytes {
		return s.tooMuch(), true
	}
	l.open++
	s.principals[l.command.Principal]++
	return nil, true
}

func (s *Server) tooMuch() *decision.Refusal {
	return decision.Refuse(decision.TooMuch, "This command has moved %d MiB, which is the limit. Split the work into "+
		"several commands.",
		s.Limits.Bytes>>20)
}

func (s *Server) give(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if s.principals[l.command.Principal]--; s.principals[l.command.Principal] == 0 {
		delete(s.principals, l.command.Principal)
	}
}

// maxHours is how many principals are remembered before the old ones are forgotten.
const maxHours = 1024

// An hour is when a principal's connections began to be counted, and how many there
// were: refused ones, and allowed ones.
type hour struct {
	since             time.Time
	refusals, allowed int
}

// mayRecord counts a refusal of l's principal. It is false where the record would
// push those of others out of what retention keeps: such a refusal is only counted.
func (s *Server) mayRecord(l *lease) bool {
	return s.count(l, func(h *hour) { h.refusals++ }).refusals <= s.Limits.Refusals
}

// mayConnect counts an allowed connection of l's principal. What is allowed is always
// recorded, so that here the connection is refused.
func (s *Server) mayConnect(l *lease) *decision.Refusal {
	if s.count(l, func(h *hour) { h.allowed++ }).allowed <= s.Limits.Hour {
		return nil
	}
	return decision.Refuse(decision.TooMany, "The commands of %s have made %d connections within an hour, which is "+
		"the limit. Wait, or fetch more with each.", l.command.Principal, s.Limits.Hour)
}

// count adds to the hour of l's principal and returns it.
func (s *Server) count(l *lease, add func(*hour)) hour {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hours[l.command.Principal]
	if time.Since(h.since) > time.Hour {
		h = hour{since: time.Now()}
	}
	add(&h)
	s.hours[l.command.Principal] = h
	if len(s.hours) > maxHours {
		maps.DeleteFunc(s.hours, func(_ string, h hour) bool { return time.Since(h.since) > time.Hour })
	}
	return h
}

func (l *lease) count() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counted++
}

// last records how many refusals were only counted.
func (l *lease) last(s *Server) {
	l.mu.Lock()
	more := l.counted
	l.mu.Unlock()
	if more > 0 {
		s.Audit.Refused(Connection{Command: l.command, More: more}.call(), string(decision.TooMany))
	}
}

// tell passes a refusal on to the command's result. One that nobody fetches is
// dropped: it is in the audit.
func (l *lease) tell(r egresswire.Refusal) {
	select {
	case l.refusals <- r:
	default:
	}
}

// Package lifecycle holds one entry of mcp.json alive: it wakes the server when it
// is used, puts it to sleep, backs off when it fails, and decides about every
// call before it leaves.
package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sallyport-dev/sallyport/hub/mux"
	"github.com/sallyport-dev/sallyport/hub/pins"
	"github.com/sallyport-dev/sallyport/hub/upstream"
	"github.com/sallyport-dev/sallyport/internal/desk"
	"github.com/sallyport-dev/sallyport/internal/identity"
	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
	"github.com/sallyport-dev/sallyport/internal/mcphttp"
)

// The figures of a server's life.
var (
	discoverBudget = 10 * time.Second  // until a server that answers server/discover has done so
	wakeBudget     = 120 * time.Second // until a woken server has answered
	firstWait      = time.Second       // after the first failure, doubled each time
)

const (
	longestWait = 5 * time.Minute
	maxCrashes  = 5               // unasked ends in a row, then parked
	healthy     = time.Minute     // a life this long makes earlier failures forgotten
	shortWait   = 3 * time.Second // a back-off that a request sits out
)

// Config is what a server is made of.
type Config struct {
	Name, Type, Hash string
	Dial             upstream.Dial
	// Shared: one connection serves all clients (docker).
	Shared      bool
	Most        int   // connections at once; the one idle longest is evicted
	Room        *Room // of the processes of all servers; nil: it starts none
	Hidden      bool  // not in the aggregate
	KeepAlive   bool
	Idle        time.Duration // until it sleeps; 0: never
	CallTimeout time.Duration
	Store       *pins.Store
	Desk        *desk.Desk // where calls are admitted; nil: one of its own, without records
	Log         *slog.Logger
	Warnings    []string
	// Image and Container of a docker entry, for the status.
	Image, Container string
	// Release, if not nil, gives back what Dial needed.
	Release func()
}

// StateError says that a server cannot serve now, and why.
type StateError struct {
	Server, State, Reason string
	RetryAfter            time.Duration // 0: waiting alone does not help
}

// Error implements error.
func (e *StateError) Error() string {
	return fmt.Sprintf("server %s is %s: %s", e.Server, e.State, e.Reason)
}

// RetryIn implements mcphttp.Refusal.
func (e *StateError) RetryIn() time.Duration { return e.RetryAfter }

// Data implements mcphttp.Refusal.
func (e *StateError) Data() json.RawMessage {
	return fmt.Appendf(nil, `{"server":%q,"state":%q}`, e.Server, e.State)
}

// Server is one entry, asleep or awake.
type Server struct {
	cfg Config
	ctx context.Context // ends when the entry goes
	off context.CancelCauseFunc

	one sync.Mutex // held while the common channel opens

	mu       sync.Mutex
	channels map[*channel]bool
	common   map[bool]*channel // the shared ones: true for the stateless era
	left     map[string]*start // whose client left before it was there, by its greeting
	snap     pins.Snapshot
	starting int
	starts   int // that succeeded
	listed   int // tools of the last whole listing
	failures int // in a row, for the back-off
	crashes  int // of these the unasked ends
	until    time.Time
	reason   string
	twins    []string // tools that are listed twice
	crowded  bool     // an answer found no room in the snapshot
}

// errAsleep ends what runs in a server that is put to sleep.
var errAsleep = errors.New("the server was put to sleep")

// Why a server has gone, for what still runs of it.
var (
	errRemoved = errors.New("its entry in mcp.json was changed or removed")
	errStopped = errors.New("the hub was stopped; try again when it runs again")
)

// New makes a sleeping server. With KeepAlive it wakes at once.
func New(cfg Config) *Server {
	if cfg.Desk == nil {
		cfg.Desk = desk.New(nil, cfg.Log)
	}
	s := &Server{cfg: cfg, channels: map[*channel]bool{}, common: map[bool]*channel{},
		snap: cfg.Store.Load(cfg.Name, cfg.Hash)}
	s.ctx, s.off = context.WithCancelCause(context.Background())
	go s.tend()
	return s
}

// Close ends everything that runs for this entry, which was edited or removed.
func (s *Server) Close() { s.close(errRemoved) }

// Stop is Close because the hub ends.
func (s *Server) Stop() { s.close(errStopped) }

func (s *Server) close(why error) {
	s.off(why)
	s.Sleep()
	s.cfg.Store.Release(s.cfg.Name, s.cfg.Hash)
	if s.cfg.Release != nil {
		s.cfg.Release()
	}
}

// gone says why the entry serves nobody any more.
func (s *Server) gone() error {
	return &StateError{s.cfg.Name, "gone", context.Cause(s.ctx).Error(), 0}
}

// Sleep ends the server's processes; the next use wakes it.
func (s *Server) Sleep() { s.stop(func(*channel) bool { return true }, errAsleep) }

// stop ends channels because the hub wants to, side by side: each may need its
// grace.
func (s *Server) stop(which func(*channel) bool, why error) {
	if s.Gone() {
		why = context.Cause(s.ctx)
	}
	s.mu.Lock()
	var wait sync.WaitGroup
	for ch := range s.channels {
		if which(ch) {
			ch.asked = true
			wait.Go(func() { ch.End(why); ch.Close() })
		}
	}
	s.mu.Unlock()
	wait.Wait()
}

// Wake forgets earlier failures and starts the server.
func (s *Server) Wake(ctx context.Context) error {
	s.mu.Lock()
	s.failures, s.crashes, s.until, s.reason = 0, 0, time.Time{}, ""
	s.mu.Unlock()
	_, err := s.shared(ctx, ownHello)
	return err
}

// state is the server's condition in one word. Needs mu.
func (s *Server) state() string {
	switch {
	case s.crashes >= maxCrashes:
		return "parked"
	case len(s.channels) > 0:
		return "running"
	case s.starting > 0:
		return "starting"
	case time.Until(s.until) > 0:
		return "backing off"
	}
	return "asleep"
}

// gate lets a start through, or says why not. A short back-off is sat out.
func (s *Server) gate(ctx context.Context) error {
	s.mu.Lock()
	wait, reason, parked := time.Until(s.until), s.reason, s.crashes >= maxCrashes
	s.mu.Unlock()
	switch {
	case s.ctx.Err() != nil:
		return s.gone()
	case parked:
		return &StateError{s.cfg.Name, "parked", fmt.Sprintf("it ended unasked %d times in a row, the last time "+
			"because: %s; repair it and edit its entry, or call wake_server", maxCrashes, reason), 0}
	case wait > shortWait:
		return &StateError{s.cfg.Name, "backing off", reason, wait}
	case wait > 0:
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.room()
}

// crashed counts a process that ended unasked, or that never answered.
func (s *Server) crashed(reason error) {
	s.mu.Lock()
	s.crashes++
	s.mu.Unlock()
	s.failed(reason)
}

// squeezed notes an end that the hub's own bounds caused: it is no crash of the
// server's, and waits no longer than a moment.
func (s *Server) squeezed(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reason, s.until = "the hub had no room for its threads (MCP_MAX_PROCESSES): "+reason.Error(),
		time.Now().Add(firstWait)
	s.cfg.Log.Warn("ended because there was no room", "reason", reason.Error())
}

// failed starts the next back-off.
func (s *Server) failed(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures++
	wait := longestWait
	if s.failures < 10 {
		wait = min(longestWait, firstWait<<(s.failures-1))
	}
	// Jitter keeps servers that fail together from starting together.
	wait = time.Duration(float64(wait) * (0.75 + rand.Float64()/4))
	s.reason, s.until = reason.Error(), time.Now().Add(wait)
	s.cfg.Log.Warn("down", "reason", s.reason, "failures", s.failures, "state", s.state(), "wait",
		wait.Round(time.Millisecond).String())
}

// tend puts idle channels to sleep and keeps a keepAlive server up.
func (s *Server) tend() {
	tick := time.NewTicker(max(10*time.Millisecond, min(15*time.Second, s.cfg.Idle/4)))
	if s.cfg.Idle == 0 {
		tick.Reset(15 * time.Second)
	}
	defer tick.Stop()
	for s.ctx.Err() == nil {
		if s.cfg.KeepAlive {
			s.shared(s.ctx, ownHello)
		} else if s.cfg.Idle > 0 {
			s.stop(func(ch *channel) bool { return ch.Idle() > s.cfg.Idle && ch.Link.Retire() }, errAsleep)
		}
		select {
		case <-s.ctx.Done():
		case <-tick.C:
		}
	}
}

// Status is what GET <base>/status says about a server.
type Status struct {
	Type        string   `json:"type"`
	State       string   `json:"state"`
	Reason      string   `json:"reason,omitempty"`
	Connections int      `json:"connections"`
	Starts      int      `json:"starts"`              // since the hub's start
	Tools       int      `json:"tools"`               // that it listed last
	Image       string   `json:"image,omitempty"`     // of a docker entry
	Container   string   `json:"container,omitempty"` // its name
	Withheld    []string `json:"withheld,omitempty"`  // tools whose definition changed
	// tools that are listed twice with different definitions, withheld too
	Twice    []string `json:"twice,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// Status describes the server.
func (s *Server) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Status{Starts: s.starts, Tools: s.listed, Image: s.cfg.Image, Container: s.cfg.Container, Type: s.cfg.Type,
		State: s.state(), Reason: s.reason, Connections: len(s.channels),
		Withheld: s.cfg.Store.Pending(s.cfg.Name), Twice: s.twins, Warnings: s.cfg.Warnings}
}

// Name is the entry's name.
func (s *Server) Name() string { return s.cfg.Name }

// Gone reports a server whose entry was edited or removed.
func (s *Server) Gone() bool { return s.ctx.Err() != nil }

// Tools are the definitions of the tools that id may call. A server that never
// said is woken.
func (s *Server) Tools(ctx context.Context, id identity.Identity) ([][]byte, error) {
	if s.snapshot().Tools == nil {
		ch, err := s.shared(ctx, ownHello)
		if err == nil {
			err = ch.verify(ctx)
		}
		if err == nil {
			err = ch.unlisted()
		}
		if err == nil && ch.modern() {
			err = fmt.Errorf("%s refuses initialize: %s", s.cfg.Name, ch.reply.ErrorText())
		}
		if err != nil {
			return nil, err
		}
	}
	tools := s.snapshot().Tools
	if tools == nil {
		return nil, s.tooLong()
	}
	whole := mustParse(jsonrpc.Answer([]byte("0"), tools))
	m := mustParse(s.filter(mcphttp.Request{Identity: id, Message: whole}, whole))
	if m.IsError() {
		return nil, errors.New(m.ErrorText())
	}
	var all [][]byte
	for _, at := range m.Elements(m.Find(m.Result(), "tools")) {
		all = append(all, m.Bytes(at))
	}
	return all, nil
}

// Hidden reports an entry that stays out of the aggregate.
func (s *Server) Hidden() bool { return s.cfg.Hidden }

var _ mux.Client = (*Session)(nil)

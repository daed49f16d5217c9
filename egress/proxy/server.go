// Package proxy is egress behind its socket: it opens leases for commands,
// reads one proxy request per connection, decides, dials and passes bytes.
//
// A request meets, in this order: limits.go (bounds of the command), head.go
// (what it asks for), package decision, the audit, package dial, and tunnel.go
// (CONNECT) or forward.go (clear text).
package proxy

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/egressrule"
	"github.com/sallyport-dev/sallyport/internal/egresswire"
	"github.com/sallyport-dev/sallyport/internal/keysocket"
)

// MaxConnections bounds what egress serves at once, leases included.
const MaxConnections = 2048

// maxLeases bounds the commands at once.
const maxLeases = 512

// helloBound is how long the first line may take.
const helloBound = 5 * time.Second

// A Server decides for one ceiling. Its fields do not change while it runs.
type Server struct {
	Ceiling egressrule.List // EGRESS_ALLOW
	Place   string          // what the owner calls the setting of Ceiling; "" is EGRESS_ALLOW
	Audit   *audit.Log      // of each connection; nil records nothing
	Limits  Limits          // the zero value is DefaultLimits
	Ready   func()          // if not nil, called once the self-test has passed

	mu         sync.Mutex
	leases     map[string]*lease // by ticket
	principals map[string]int    // open connections
	hours      map[string]hour   // of principals
	past       []egresswire.Past // the last ones
}

// Run serves the socket l for whoever proves the key of sum, until ctx ends. A
// self-test that fails is its error: nothing was served then, or nothing more.
func (s *Server) Run(ctx context.Context, l *net.UnixListener, sum keysocket.Sum) error {
	s.begin()
	if s.Limits == (Limits{}) {
		s.Limits = DefaultLimits
	}
	if err := s.selfTest(ctx); err != nil {
		l.Close()
		return fmt.Errorf("the self-test failed, so egress does not start: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k := keysocket.Server{Sum: sum, MaxConnections: MaxConnections, Serve: s.serve}
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx, l) }()
	if err := keysocket.RefusesStrangers(ctx, l.Addr().String()); err != nil && ctx.Err() == nil {
		cancel()
		<-ended
		return fmt.Errorf("the self-test failed, so egress does not start: %w", err)
	}
	if s.Ready != nil {
		s.Ready()
	}
	return <-ended
}

func (s *Server) begin() {
	s.leases, s.principals, s.hours = map[string]*lease{}, map[string]int{}, map[string]hour{}
}

// serve reads the Hello of a proven connection.
func (s *Server) serve(ctx context.Context, c *net.UnixConn) {
	var hello egresswire.Hello
	r := bufio.NewReader(c)
	c.SetReadDeadline(time.Now().Add(helloBound))
	if err := egresswire.Read(r, &hello); err != nil {
		egresswire.Write(c, egresswire.Reply{Error: err.Error()})
		return
	}
	c.SetReadDeadline(time.Time{})
	switch {
	case hello.Command != nil:
		s.open(ctx, c, hello.Command)
	case hello.Past != nil:
		s.wentPast(*hello.Past)
	case hello.Check != nil:
		egresswire.Write(c, s.check(ctx, hello.Check))
	case hello.Ticket != "":
		s.mu.Lock()
		of := s.leases[hello.Ticket]
		s.mu.Unlock()
		if of == nil { // its command has ended
			return
		}
		s.connection(of, c, r)
	}
}

// open holds a lease until its connection closes.
func (s *Server) open(ctx context.Context, c *net.UnixConn, command *egresswire.Command) {
	granted, err := egressrule.ParseList(command.Rules, egressrule.Parse)
	if err == nil && (command.Principal == "" || command.ID == "") {
		err = fmt.Errorf("a command has a principal and an id")
	}
	if err != nil {
		egresswire.Write(c, egresswire.Reply{Error: err.Error()})
		return
	}
	l := &lease{command: *command, granted: granted, refusals: make(chan egresswire.Refusal, 64)}
	var cancel context.CancelFunc
	l.ctx, cancel = context.WithCancel(ctx)
	defer cancel()
	ticket := rand.Text()
	if !s.enter(ticket, l) {
		egresswire.Write(c, egresswire.Reply{Error: "too many commands use egress at once"})
		return
	}
	defer s.leave(ticket, l)
	if egresswire.Write(c, egresswire.Reply{Ticket: ticket}) != nil {
		return
	}
	go func() { // the client says nothing more: what ends is its life
		c.Read(make([]byte, 1))
		cancel()
	}()
	for {
		select {
		case <-l.ctx.Done():
			return
		case r := <-l.refusals:
			c.SetWriteDeadline(time.Now().Add(helloBound))
			if egresswire.Write(c, r) != nil {
				return
			}
		}
	}
}

func (s *Server) place() string { return cmp.Or(s.Place, "EGRESS_ALLOW") }

func (s *Server) enter(ticket string, l *lease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.leases) >= maxLeases {
		return false
	}
	s.leases[ticket] = l
	return true
}

// leave forgets a lease. Its connections end with its context.
func (s *Server) leave(ticket string, l *lease) {
	s.mu.Lock()
	delete(s.leases, ticket)
	s.mu.Unlock()
	l.last(s)
}

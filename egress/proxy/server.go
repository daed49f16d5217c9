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

	"github.com/sallyport-dev/sallyport/egress/decision"
	"github.com/sallyport-dev/sallyport/egress/dial"
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

	mu         sync.Mutex
	leases     map[string]*lease // by ticket
	principals map[string]int    // open connections
}

// Run serves the socket l for whoever proves the key of sum, until ctx ends.
func (s *Server) Run(ctx context.Context, l *net.UnixListener, sum keysocket.Sum) error {
	s.leases, s.principals = map[string]*lease{}, map[string]int{}
	if s.Limits == (Limits{}) {
		s.Limits = DefaultLimits
	}
	k := keysocket.Server{Sum: sum, MaxConnections: MaxConnections, Serve: s.serve}
	return k.Run(ctx, l)
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

// check answers doctor: which rules pass the ceiling, and which names resolve.
func (s *Server) check(ctx context.Context, asked *egresswire.Check) egresswire.Reply {
	reply := egresswire.Reply{Ceiling: s.Ceiling.Texts()}
	for _, text := range asked.Rules {
		reply.Checked = append(reply.Checked, s.checkRule(ctx, text, asked.Resolve))
	}
	return reply
}

func (s *Server) checkRule(ctx context.Context, text string, resolve bool) string {
	rule, err := egressrule.Parse(text)
	switch {
	case err != nil:
		return err.Error()
	case rule.All:
		return ""
	case rule.Under:
		return s.checkWildcard(rule)
	}
	target := egressrule.Target{Name: rule.Name, Port: rule.Port, Clear: rule.Clear}
	private, refusal := decision.Decide(target, "", egressrule.List{rule}, s.Ceiling, s.place())
	if refusal != nil {
		return refusal.Say
	}
	if !resolve {
		return ""
	}
	if _, err := dial.Resolve(ctx, rule.Name, private); err != nil {
		return err.Error()
	}
	return ""
}

// checkWildcard looks for a rule of the ceiling that overlaps with a wildcard.
func (s *Server) checkWildcard(rule egressrule.Rule) string {
	under := egressrule.Target{Name: "any." + rule.Name, Port: rule.Port, Clear: rule.Clear}
	if _, whole := s.Ceiling.Find(under); whole {
		return ""
	}
	for _, c := range s.Ceiling {
		if rule.Allows(egressrule.Target{Name: c.Name, Port: c.Port, Clear: c.Clear}) {
			return fmt.Sprintf("EGRESS_ALLOW allows only part of it, such as %s", c)
		}
	}
	return fmt.Sprintf("EGRESS_ALLOW allows nothing of it: add the rule %q there", rule)
}

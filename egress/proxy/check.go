package proxy

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sallyport-dev/sallyport/egress/decision"
	"github.com/sallyport-dev/sallyport/egress/dial"
	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/egressrule"
	"github.com/sallyport-dev/sallyport/internal/egresswire"
)

// check answers doctor: which rules pass the ceiling, and which names resolve.
func (s *Server) check(ctx context.Context, asked *egresswire.Check) egresswire.Reply {
	reply := egresswire.Reply{Ceiling: s.Ceiling.Texts()}
	s.mu.Lock()
	reply.Past = slices.Clone(s.past)
	s.mu.Unlock()
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

// maxPast is how many commands that went past their proxy doctor is told of.
const maxPast = 8

// wentPast records a command that did not use its proxy, and keeps it for doctor.
func (s *Server) wentPast(p egresswire.Past) {
	p.At = time.Now().UTC()
	s.Audit.Refused(audit.Call{Principal: p.Principal, Session: p.Session, Tool: "connection",
		Details: map[string]string{
			"command": p.ID, "more": strconv.Itoa(p.Count)}}, string(decision.PastProxy))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.past = append(s.past[max(0, len(s.past)+1-maxPast):], p)
}

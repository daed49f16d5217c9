// Package egressrule reads the rules of egress: which host names commands may
// connect to. The same syntax stands in Traefik's configuration (egress: of a
// token), in MCP_EGRESS and in EGRESS_ALLOW.
//
//	api.example.com          TLS to this name, port 443
//	*.example.org:8443       TLS to any name under example.org, not to itself
//	http://deb.example.org   clear text, port 80
//	private:gitea.home:3000  EGRESS_ALLOW only: the name may have private addresses
//	*                        everywhere but in EGRESS_ALLOW: all that the ceiling allows
package egressrule

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// MaxRules bounds a list, and MaxText one rule, in bytes.
const (
	MaxRules = 256
	MaxText  = 280
)

// A Rule is one entry of a list.
type Rule struct {
	All     bool   // "*"; nothing else is set then
	Name    string // lower case; of a wildcard what stands behind "*."
	Under   bool   // "*.Name": any name under it, not Name itself
	Port    uint16
	Clear   bool // http://: plain HTTP, otherwise TLS
	Private bool // the addresses of Name may be private ones too
}

// A Target is what a command asked for.
type Target struct {
	Name  string // as Name returned it
	Port  uint16
	Clear bool // plain HTTP in absolute form; otherwise CONNECT
}

// String is name:port, always with the port.
func (t Target) String() string { return t.Name + ":" + strconv.Itoa(int(t.Port)) }

// Rule is the narrowest rule that allows t.
func (t Target) Rule() Rule { return Rule{Name: t.Name, Port: t.Port, Clear: t.Clear} }

// Parse reads a rule of a token, an OAuth middleware or MCP_EGRESS.
func Parse(s string) (Rule, error) {
	if s == "*" {
		return Rule{All: true}, nil
	}
	if strings.HasPrefix(s, "private:") {
		return Rule{}, mistake(s, "private: is for EGRESS_ALLOW only; write the rule without it here")
	}
	return parse(s, false)
}

// ParseCeiling reads a rule of EGRESS_ALLOW.
func ParseCeiling(s string) (Rule, error) {
	if s == "*" {
		return Rule{}, mistake(s, "the ceiling names its hosts; MCP_COMMAND_NETWORK=container is for commands that "+
			"may reach everything")
	}
	return parse(s, true)
}

func parse(s string, ceiling bool) (r Rule, err error) {
	if len(s) > MaxText {
		return r, fmt.Errorf("a rule of %d bytes: at most %d are allowed", len(s), MaxText)
	}
	rest := s
	if ceiling {
		rest, r.Private = strings.CutPrefix(rest, "private:")
	}
	rest, r.Clear = strings.CutPrefix(rest, "http://")
	host, port, hasPort := strings.Cut(rest, ":")
	r.Port = defaultPort(r.Clear)
	switch {
	case strings.Contains(rest, "/") || strings.Contains(rest, "@"):
		return r, mistake(s, "a rule is a host name with an optional port, without scheme (but http://), path or user")
	case hasPort:
		if r.Port, err = parsePort(port); err != nil {
			return r, mistake(s, err.Error())
		}
	case r.Private:
		return r, mistake(s, "a private rule names its port: private:NAME:PORT")
	}
	if host, r.Under = strings.CutPrefix(host, "*."); r.Under && r.Private {
		return r, mistake(s, "a private rule names one host")
	}
	// A name of one label is one of the home network: the ceiling says so.
	if r.Name, err = name(host, r.Private || !ceiling); err != nil {
		return r, mistake(s, err.Error())
	}
	if r.Under && !strings.Contains(r.Name, ".") {
		return r, mistake(s, "a wildcard must not cover a whole top-level domain")
	}
	return r, nil
}

func mistake(rule, why string) error { return fmt.Errorf("rule %q: %s", rule, why) }

func defaultPort(clear bool) uint16 {
	if clear {
		return 80
	}
	return 443
}

func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || s[0] == '0' || s[0] == '+' {
		return 0, fmt.Errorf("the port %q is no number from 1 to 65535", s)
	}
	return uint16(n), nil
}

// String is the rule as it is written, without a default port.
func (r Rule) String() string {
	if r.All {
		return "*"
	}
	var s strings.Builder
	if r.Private {
		s.WriteString("private:")
	}
	if r.Clear {
		s.WriteString("http://")
	}
	if r.Under {
		s.WriteString("*.")
	}
	s.WriteString(r.Name)
	if r.Private || r.Port != defaultPort(r.Clear) {
		s.WriteString(":" + strconv.Itoa(int(r.Port)))
	}
	return s.String()
}

// Allows reports whether r lets a command connect to t.
func (r Rule) Allows(t Target) bool {
	if r.All {
		return true
	}
	if r.Port != t.Port || r.Clear != t.Clear {
		return false
	}
	if r.Under {
		return strings.HasSuffix(t.Name, "."+r.Name)
	}
	return t.Name == r.Name
}

// A List is the rules of one place.
type List []Rule

// Find returns the first rule that allows t. A private rule comes before
// others, since it allows more of the name's addresses.
func (l List) Find(t Target) (found Rule, ok bool) {
	for _, r := range l {
		if r.Allows(t) && (!ok || r.Private) {
			found, ok = r, true
		}
	}
	return found, ok
}

// String is the list as it is written, separated by commas.
func (l List) String() string { return strings.Join(l.Texts(), ",") }

// Texts are the rules as they are written.
func (l List) Texts() []string {
	texts := make([]string, len(l))
	for i, r := range l {
		texts[i] = r.String()
	}
	return texts
}

// ParseList reads rules with parse, which is Parse or ParseCeiling. The error
// names every mistake; a repeated rule is one too.
func ParseList(texts []string, parse func(string) (Rule, error)) (list List, err error) {
	var mistakes []error
	if len(texts) > MaxRules {
		return nil, fmt.Errorf("%d rules: at most %d are allowed", len(texts), MaxRules)
	}
	seen := map[Rule]bool{}
	for _, text := range texts {
		r, err := parse(text)
		if err == nil && seen[r] {
			err = mistake(text, "it stands here twice")
		}
		if err != nil {
			mistakes = append(mistakes, err)
			continue
		}
		seen[r] = true
		list = append(list, r)
	}
	return list, errors.Join(mistakes...)
}

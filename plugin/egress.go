package plugin

import (
	"regexp"
	"strconv"
	"strings"
)

// A rule of egress names what commands may connect to: a name, or *.suffix for
// every name below it, with a port other than 443, or http://name for clear text
// with a port other than 80; or "*" for all that the egress process allows. Names
// are ASCII letters, digits and hyphens (RFC 1123, section 2.1), two labels at
// least. testdata/egress has what the egress process and the edge both read.
var hostForm = regexp.MustCompile(`^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$`)

// addressForm is how an IPv4 address ends in each of its notations.
var addressForm = regexp.MustCompile(`(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)$`)

// maxRules bounds a list, since all of it travels in one header.
const maxRules = 256

// maxRulesText leaves room for the other headers in what a backend reads (64 KiB).
const maxRulesText = 16384

// egressRule is one rule, taken apart.
type egressRule struct {
	text   string // as it is sent: in lower case, without a default port
	scheme string // "http://" or ""
	under  bool   // *.name
	name   string // empty: "*"
	port   string
}

// parseRule returns nil for what is not a rule of a token.
func parseRule(text string) *egressRule {
	if text == "*" {
		return &egressRule{text: text}
	}
	r := &egressRule{port: "443"}
	host := strings.ToLower(text)
	odd := len(host) != len(text) // a letter of another script has an ASCII small form
	if strings.HasPrefix(text, "http://") {
		r.scheme = "http://"
		r.port = "80"
		host = host[len(r.scheme):]
	}
	usual := r.port
	host, port, given := strings.Cut(host, ":")
	n, err := strconv.Atoi(port)
	if odd || given && (err != nil || n < 1 || n > 65535 || strconv.Itoa(n) != port) {
		return nil
	}
	r.name = strings.TrimPrefix(host, "*.")
	r.under = r.name != host
	if !hostForm.MatchString(r.name) || len(r.name) > 253 || addressForm.MatchString(r.name) ||
		r.under && !strings.Contains(r.name, ".") { // all of a top-level domain
		return nil
	}
	r.text = r.scheme + host
	if given && port != usual {
		r.port = port
		r.text += ":" + port
	}
	return r
}

// compileEgress reads a setting's list and returns it as X-Sallyport-Egress; nil
// where nothing is allowed.
func compileEgress(m *mistakes, where, backend string, list []string) []string {
	m.when(len(list) > 0 && backend == "other", "%segress is for backend: sandbox and hub: no other server can "+
		"hold its programs to it", where)
	m.when(len(list) > maxRules, "%segress has %d rules: give at most %d", where, len(list), maxRules)
	m.when(len(strings.Join(list, ",")) > maxRulesText, "%segress has more than 16 KiB of rules: use wildcards", where)
	var rules []string
	for _, text := range list {
		text = strings.TrimSpace(text)
		private := strings.HasPrefix(text, "private:")
		m.when(private, "%segress has %q: private: belongs into EGRESS_ALLOW of the egress process only", where, text)
		r := parseRule(text)
		if r != nil {
			rules = addRule(rules, r.text)
		}
		m.when(r == nil && !private, `%segress has %q: give a host name or "*.suffix" (with :port where it is not 443), "http://name", `+
			`or "*" for all that EGRESS_ALLOW has; no addresses`, where, text)
	}
	return rules
}

func addRule(rules []string, rule string) []string {
	if contains(rules, rule) {
		return rules
	}
	return append(rules, rule)
}

// narrowedRules returns the rules that both lists allow.
func narrowedRules(ceiling, wanted []string) []string {
	var rules []string
	var parsed []*egressRule
	for _, w := range wanted {
		if r := parseRule(w); r != nil {
			parsed = append(parsed, r)
		}
	}
	for _, c := range ceiling {
		outer := parseRule(c)
		for _, inner := range parsed {
			if ruleCovers(outer, inner) {
				rules = addRule(rules, inner.text)
			} else if ruleCovers(inner, outer) {
				rules = addRule(rules, outer.text)
			}
		}
	}
	return rules
}

// ruleCovers says whether a allows all that b does.
func ruleCovers(a, b *egressRule) bool {
	switch {
	case a.name == "":
		return true
	case a.scheme != b.scheme || a.port != b.port:
		return false
	case a.under && strings.HasSuffix(b.name, "."+a.name):
		return true
	}
	return a.name == b.name && a.under == b.under
}

// egressHeader is X-Sallyport-Egress, or nil where it is absent.
func egressHeader(rules []string) []string {
	if len(rules) == 0 {
		return nil
	}
	return []string{strings.Join(rules, ",")}
}

// Package decision says whether a command may connect to a name. It looks at
// nothing but the two lists, so that a refused name causes no DNS query.
package decision

import (
	"fmt"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/egressrule"
)

// A Verdict is how a connection ended, as the audit has it.
type Verdict string

// The verdicts. Every one but OK is a refusal or a failure.
const (
	OK           Verdict = "ok"
	BadRequest   Verdict = "bad_request"   // no request of an HTTP proxy's client
	BadName      Verdict = "bad_name"      // a host that is no DNS name
	NotGranted   Verdict = "not_granted"   // not on the principal's list
	AboveCeiling Verdict = "above_ceiling" // on that list, but not in EGRESS_ALLOW
	Unresolvable Verdict = "unresolvable"
	NotPublic    Verdict = "not_public" // an address of the name is not a public one
	Unreachable  Verdict = "unreachable"
	NoTLS        Verdict = "no_tls"       // CONNECT, but then no ClientHello
	SNIMismatch  Verdict = "sni_mismatch" // or no SNI at all
	TooMany      Verdict = "too_many"     // connections
	TooMuch      Verdict = "too_much"     // bytes
	TimedOut     Verdict = "timed_out"
	PastProxy    Verdict = "past_proxy" // what the command's own network did not let out; counted, not asked for
	Failed       Verdict = "failed"     // the connection broke, or there is no audit
)

// A Refusal is an error with a verdict.
type Refusal struct {
	Verdict Verdict
	Rule    string // the rule that is needed, where one would help
	Say     string // what is wrong and then what to do, one or two sentences
}

// Error is what is wrong and what to do.
func (r *Refusal) Error() string { return r.Say }

// Refuse makes a Refusal.
func Refuse(v Verdict, format string, args ...any) *Refusal {
	return &Refusal{Verdict: v, Say: fmt.Sprintf(format, args...)}
}

// Decide reports whether both lists allow t: granted is the principal's, ceiling
// is the one that stands in the setting called place. private allows addresses
// of the home network too.
func Decide(t egressrule.Target, principal string, granted, ceiling egressrule.List, place string) (private bool,
	refusal *Refusal) {
	_, inGranted := granted.Find(t)
	rule, inCeiling := ceiling.Find(t)
	if inGranted && inCeiling {
		return rule.Private, nil
	}
	if t.Name == "localhost" || strings.HasSuffix(t.Name, ".localhost") { // no rule would help
		return false, Refuse(NotGranted, "%s is the proxy's own machine, which no rule opens. A server that you "+
			"started yourself is reached without the proxy: see NO_PROXY.", t)
	}
	need, v := t.Rule().String(), AboveCeiling
	var places []string
	if !inGranted {
		v = NotGranted
		places = append(places, listOf(principal))
	}
	if !inCeiling {
		places = append(places, place)
	}
	r := Refuse(v, "%s is not on the list of allowed hosts. Retrying does not help: ask the owner to add the rule %q "+
		"to %s.",
		t, need, strings.Join(places, " and to "))
	r.Rule = need
	return false, r
}

// listOf says where the list of a principal stands.
func listOf(principal string) string {
	kind, name, _ := strings.Cut(principal, ":")
	switch kind {
	case "token":
		return fmt.Sprintf("egress: of the token %s in Traefik's configuration", name)
	case "oauth":
		return "egress: under oauth in Traefik's configuration"
	}
	return "MCP_EGRESS"
}

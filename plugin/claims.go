package plugin

import (
	"encoding/json"
	"math"
	"regexp"
	"strings"
	"time"
)

// claims is what is used of a verified token.
type claims struct {
	sub       string // of the principal
	grant     string // of grantClaim; empty: none
	audiences []string
	scopes    []string
	grants    *grants
	egress    []string  // X-Sallyport-Egress
	refused   string    // why a good token may do nothing here
	until     time.Time // when it must be verified again
	ends      int64     // when it has expired, in nanoseconds
}

// leeway is allowed between the issuer's clock and ours.
const leeway = 60 * time.Second

// maxClaimed bounds the strings of toolsClaim and egressClaim.
const maxClaimed = 100

var principalForm = regexp.MustCompile(`^[A-Za-z0-9._@|:+-]{1,128}$`)

const wrongAudience = "the token is for another audience"

// checkClaims follows RFC 9068, section 4. The second result says what is wrong.
func checkClaims(is *issuer, fields map[string]json.RawMessage, now time.Time) (*claims, string) {
	if iss, _ := text(fields["iss"]); iss != is.url {
		return nil, "the token is from another issuer"
	}
	expires, ok := seconds(fields["exp"])
	expires = expires.Add(leeway)
	if !ok || !now.Before(expires) {
		return nil, expired
	}
	for _, name := range []string{"nbf", "iat"} {
		from, ok := seconds(fields[name])
		if fields[name] != nil && (!ok || now.Before(from.Add(-leeway))) {
			return nil, "the token is not valid yet"
		}
	}
	cl := &claims{until: now.Add(verifiedFor), ends: math.MaxInt64, audiences: textList(fields["aud"]),
		scopes: scopesOf(fields)}
	if expires.Before(cl.until) {
		cl.until = expires
	}
	if expires.Year() < 2262 { // until when nanoseconds fit
		cl.ends = expires.UnixNano()
	}
	cl.sub, _ = text(fields[is.claim])
	if !principalForm.MatchString(cl.sub) {
		return nil, "the token's claim " + is.claim + " does not name a principal"
	}
	if is.grantClaim != "" {
		cl.grant, _ = text(fields[is.grantClaim])
		if !principalForm.MatchString(cl.grant) {
			return nil, "the token's claim " + is.grantClaim + " does not name a grant"
		}
	}
	return cl, ""
}

// scopesOf reads the forms in which issuers write scopes: a string or an array,
// as scope (RFC 9068, section 2.2.3) or scp, and Auth0's permissions.
func scopesOf(fields map[string]json.RawMessage) []string {
	var scopes []string
	for _, name := range []string{"scope", "scp", "permissions"} {
		for _, s := range textList(fields[name]) {
			scopes = append(scopes, strings.Fields(s)...)
		}
	}
	return scopes
}

// hasScope also knows a scope that is asked for as AUDIENCE/NAME and granted as
// NAME, as Microsoft Entra does; there /.default asks for what was set up.
func hasScope(is *issuer, cl *claims, scope string) bool {
	short := strings.TrimPrefix(strings.TrimPrefix(scope, "api://"), strings.TrimPrefix(is.resource.own, "api://")+"/")
	return contains(cl.scopes, scope) || (is.resource.own != "" && (short == ".default" || contains(cl.scopes, short)))
}

// grantClaims finds what the token may do: what its principal was given here, and
// of that what the token's claims name. Both only narrow the issuer's ceiling.
func grantClaims(is *issuer, cl *claims, fields map[string]json.RawMessage, e *edge) {
	cl.grants = is.grants
	cl.egress = egressHeader(is.egress)
	if proof := string(fields["email_verified"]); is.claim == "email" && proof != "" && proof != "true" &&
		proof != `"true"` {
		cl.refused = "has an address that the issuer has not verified: anybody could have given it"
		return
	}
	if is.principals != nil {
		cl.grants = is.principals[cl.sub]
		if cl.grants == nil {
			cl.refused = "is not listed in oauth.principals"
			return
		}
	}
	if is.egressClaim != "" {
		rules, ok := claimed(fields[is.egressClaim])
		cl.egress = egressHeader(narrowedRules(is.egress, rules))
		if !ok && fields[is.egressClaim] != nil {
			e.log.Warn("oauth:" + cl.sub + " has no egress: " + is.egressClaim + " is no list of at most 100 strings")
		}
	}
	if is.toolsClaim == "" {
		return
	}
	list, ok := claimed(fields[is.toolsClaim])
	if !ok {
		cl.refused = "has a token whose claim " + is.toolsClaim + " is not a JSON array of at most 100 strings"
		return
	}
	var wanted []*grant
	for _, entry := range list {
		if g, wrong := parseGrant(e.cfg.Backend, entry); wrong == "" {
			wanted = append(wanted, g)
		}
	}
	cl.grants = narrowed(e.cfg.Backend, cl.grants.list, wanted)
	if len(cl.grants.list) == 0 {
		cl.refused = "has a token whose claim " + is.toolsClaim + " names nothing that oauth.tools allows"
	}
}

func claimed(raw json.RawMessage) ([]string, bool) {
	var list []string
	if err := json.Unmarshal(raw, &list); err != nil || list == nil || len(list) > maxClaimed {
		return nil, false
	}
	return list, true
}

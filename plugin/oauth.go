package plugin

import (
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
	"time"
)

// issuer is the OAuth side of an edge.
type issuer struct {
	url         string
	resource    resource
	jwksURL     string
	claim       string // of the principal
	grantClaim  string // empty: none, as the two below
	toolsClaim  string
	egressClaim string
	scopes      []string
	grants      *grants            // the ceiling
	principals  map[string]*grants // by the principal's claim; nil: whoever has a token
	egress      []string           // the ceiling's rules
	revoked     *revocations       // nil: none
	limits      limits

	mu       sync.Mutex
	verified *recent // of *claims, by the token's hash
}

// verifiedFor is how long a good token is remembered, since a signature costs
// 50 to 120 µs, and so how long a key that was withdrawn is still believed.
const verifiedFor = 5 * time.Minute

// authenticateJWT finds the principal of an access token of the issuer.
func authenticateJWT(c *call, text string) bool {
	is := c.e.oauth
	cl, why := knownClaims(c, is, text)
	switch why {
	case "":
	case keysUnavailable:
		c.rw.Header().Set("Retry-After", "10")
		return refuse(c, http.StatusServiceUnavailable, "issuer_down", why)
	default:
		return wrongToken(c, why)
	}
	id := "oauth:" + cl.sub
	if cl.grant != "" {
		id += "#" + cl.grant
	}
	c.who = &principal{id: id, header: []string{id}, grants: cl.grants, egress: cl.egress, limits: is.limits,
		grant: cl.grant, until: cl.ends}
	if !checkStanding(c, is, cl) {
		return false
	}
	c.who.usage = usageOf(c.e, id, c.start)
	return c.who.usage != nil || tooMany(c, 60, "principals")
}

// knownClaims verifies a token, or remembers that it was good. For which paths it
// is good is asked each time.
func knownClaims(c *call, is *issuer, text string) (*claims, string) {
	sum := sha256.Sum256([]byte(text))
	key := string(sum[:])
	is.mu.Lock()
	cl, known := is.verified.get(key).(*claims)
	is.mu.Unlock()
	if known && c.start.Before(cl.until) {
		if !isFor(&is.resource, cl.audiences, c.r.URL.EscapedPath()) {
			return nil, wrongAudience
		}
		return cl, ""
	}
	cl, why := verify(c, is, text)
	if why == "" {
		is.mu.Lock()
		is.verified.put(key, cl)
		is.mu.Unlock()
	}
	return cl, why
}

// checkStanding refuses a good token whose grant was revoked, that lacks a scope,
// or whose principal may do nothing here.
func checkStanding(c *call, is *issuer, cl *claims) bool {
	if why := ended(c); why == noRevocations {
		c.rw.Header().Set("Retry-After", "5")
		return refuse(c, http.StatusServiceUnavailable, "revocations", why)
	} else if why != "" {
		return unauthorized(c, "invalid_token", why)
	}
	for _, s := range is.scopes {
		if hasScope(is, cl, s) {
			continue
		}
		if is.toolsClaim == "" { // else a client would ask for more, in a circle: scopes say nothing about tools
			c.rw.Header().Set("WWW-Authenticate", challenge(c, "insufficient_scope", "the token lacks a scope"))
		}
		return refuse(c, http.StatusForbidden, "scope", "the token needs the scopes "+strings.Join(is.scopes, " "))
	}
	if cl.refused != "" {
		return refuse(c, http.StatusForbidden, "principal", c.who.id+" "+cl.refused)
	}
	return true
}

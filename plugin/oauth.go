package plugin

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
)

// issuer is the OAuth side of an edge.
type issuer struct {
	url      string
	audience string
	metadata string // URL of the metadata
	jwksURL  string
	claim    string
	scopes   []string
	grants   *grants
	limits   limits

	mu       sync.Mutex
	verified *recent // of *claims, by the token's hash
}

var principalForm = regexp.MustCompile(`^[A-Za-z0-9._@|:-]{1,128}$`)

// verifiedFor is how long a good token is remembered, since a signature costs
// 50 to 120 µs, and so how long a key that was withdrawn is still believed.
const verifiedFor = 5 * time.Minute

const metadataPath = "/.well-known/oauth-protected-resource"

// challenge is the value of WWW-Authenticate (RFC 6750, section 3; RFC 9728,
// section 5.1). Without OAuth it is bare: clients drop a configured token for a
// server that seems to offer OAuth.
func challenge(is *issuer, code, text string) string {
	if is == nil {
		return "Bearer"
	}
	value := `Bearer resource_metadata="` + is.metadata + `"`
	if len(is.scopes) > 0 {
		value += `, scope="` + strings.Join(is.scopes, " ") + `"`
	}
	if code != "" {
		value += `, error="` + code + `", error_description="` + text + `"`
	}
	return value
}

// metadata is what clients need to find the issuer (RFC 9728, section 2).
type metadata struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Methods  []string `json:"bearer_methods_supported"`
	Scopes   []string `json:"scopes_supported,omitempty"`
}

// wellKnown answers every well-known path here. In token mode it is 404: any
// other answer makes clients look for an OAuth server.
func wellKnown(c *call, path string) bool {
	is := c.e.oauth
	rest := strings.TrimPrefix(path, metadataPath)
	if is == nil || rest == path || (rest != "" && !insidePath(rest, c.e.prefix)) {
		return refuse(c, http.StatusNotFound, "well-known", "nothing is published here")
	}
	if c.method != http.MethodGet && c.method != http.MethodHead {
		c.rw.Header().Set("Allow", "GET, HEAD")
		return refuse(c, http.StatusMethodNotAllowed, "http method", "the metadata can only be read")
	}
	body, _ := json.Marshal(metadata{is.audience, []string{is.url}, []string{"header"}, is.scopes})
	return answer(c, http.StatusOK, "metadata", "application/json", body)
}

// authenticateJWT finds the principal of an access token of the issuer.
func authenticateJWT(c *call, text string) bool {
	is := c.e.oauth
	sum := sha256.Sum256([]byte(text))
	key := string(sum[:])
	is.mu.Lock()
	cl, known := is.verified.get(key).(*claims)
	is.mu.Unlock()
	if !known || !c.start.Before(cl.until) {
		var why string
		cl, why = verify(c, is, text)
		if why == keysUnavailable {
			c.rw.Header().Set("Retry-After", "10")
			return refuse(c, http.StatusServiceUnavailable, "issuer down", why)
		}
		if why != "" {
			return wrongToken(c, why)
		}
		is.mu.Lock()
		is.verified.put(key, cl)
		is.mu.Unlock()
	}
	for _, s := range is.scopes {
		if !contains(cl.scopes, s) {
			c.rw.Header().Set("WWW-Authenticate", challenge(is, "insufficient_scope", "the token lacks a scope"))
			return refuse(c, http.StatusForbidden, "scope", "the token needs the scopes "+strings.Join(is.scopes, " "))
		}
	}
	id := "oauth:" + cl.principal
	c.who = &principal{id: id, header: []string{id}, grants: is.grants, limits: is.limits, usage: usageOf(c.e, id, c.start)}
	return c.who.usage != nil || tooMany(c, 60, "principals")
}

package plugin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strconv"
	"strings"
)

// bearerToken returns the token of one Authorization header, or "" where it is
// not exactly RFC 6750's form: the scheme in any case, spaces, one token.
func bearerToken(values []string) string {
	if len(values) != 1 || len(values[0]) > 16<<10 {
		return ""
	}
	scheme, text, _ := strings.Cut(bare(values[0]), " ")
	text = strings.TrimLeft(text, " ")
	if !strings.EqualFold(scheme, "bearer") || strings.ContainsAny(text, " \t,") {
		return ""
	}
	return text
}

// bare is a header's value without blanks around it. HTTP/1 has taken them off, HTTP/2
// has not, and headers that are known are known without them.
func bare(value string) string { return strings.Trim(value, " \t") }

// authenticate finds out who calls.
func authenticate(c *call) bool {
	text := bearerToken(c.r.Header["Authorization"])
	i := match(c.secrets.sums, text)
	switch {
	case len(c.r.Header["Authorization"]) == 0:
		return unauthorized(c, "", "send Authorization: Bearer <token>")
	case text == "":
		return wrongToken(c, "Authorization must be there once, as Bearer <token>")
	case i >= 0:
		t := c.e.tokens[i]
		c.who = t.who
		return c.now < t.until || wrongToken(c, expired)
	case c.e.oauth != nil && strings.Count(text, ".") == 2:
		return authenticateJWT(c, text)
	}
	return wrongToken(c, "the token is not known here")
}

// match returns the index of the hash of text, or -1. It compares with every
// one, so that the time says nothing about which one was near.
func match(sums [][]byte, text string) int {
	sum := sha256.Sum256([]byte(text))
	found := -1
	for i := range sums { // no two are equal
		found += (i + 1) * subtle.ConstantTimeCompare(sum[:], sums[i])
	}
	return found
}

const expired = "the token has expired"

// wrongToken answers 401, or 429 once an address has sent too many. A right
// token never comes here, and the owner of one that has expired learns that it
// has to be renewed: nobody can be locked out by others.
func wrongToken(c *call, text string) bool {
	if text == expired {
		return unauthorized(c, "invalid_token", text)
	}
	if wait := countFailure(c); wait > 0 {
		c.rw.Header().Set("Retry-After", strconv.Itoa(wait))
		return refuse(c, http.StatusTooManyRequests, "locked_out", "too many wrong tokens from this address")
	}
	return unauthorized(c, "invalid_token", text)
}

func unauthorized(c *call, code, text string) bool {
	c.rw.Header().Set("WWW-Authenticate", challenge(c, code, text))
	return refuse(c, http.StatusUnauthorized, "unauthorized", text)
}

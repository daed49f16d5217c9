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
	if len(values) != 1 || len(values[0]) < 8 || len(values[0]) > 16<<10 || !strings.EqualFold(values[0][:7], "bearer ") {
		return ""
	}
	text := strings.TrimLeft(values[0][7:], " ")
	if strings.ContainsAny(text, " \t,") {
		return ""
	}
	return text
}

// authenticate finds the principal. The body is not read before.
func authenticate(c *call) bool {
	e := c.e
	c.secrets = secrets(e, c.start)
	values := c.r.Header["Authorization"]
	if len(values) == 0 {
		return unauthorized(c, "", "send Authorization: Bearer <token>")
	}
	text := bearerToken(values)
	if text == "" {
		return wrongToken(c, "Authorization must be there once, as Bearer <token>")
	}
	if t := match(e.tokens, c.secrets.sums, text); t != nil {
		if !t.expires.IsZero() && !c.start.Before(t.expires) {
			return wrongToken(c, "the token "+t.who.id+" has expired")
		}
		c.who = t.who
		return true
	}
	if e.oauth != nil && strings.Count(text, ".") == 2 {
		return authenticateJWT(c, text)
	}
	return wrongToken(c, "the token is not known here")
}

// match compares with every token, so that the time says nothing about which
// one was near. Only hashes are compared.
func match(tokens []*token, sums [][]byte, text string) *token {
	sum := sha256.Sum256([]byte(text))
	given := sum[:]
	found := -1
	for i := range sums {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(given, sums[i]), i, found)
	}
	if found < 0 {
		return nil
	}
	return tokens[found]
}

// wrongToken answers 401, or 429 once an address has sent too many. A right
// token never comes here, so nobody can be locked out by others.
func wrongToken(c *call, text string) bool {
	if wait := countFailure(c); wait > 0 {
		c.rw.Header().Set("Retry-After", strconv.Itoa(wait))
		return refuse(c, http.StatusTooManyRequests, "locked out", "too many wrong tokens from this address")
	}
	return unauthorized(c, "invalid_token", text)
}

func unauthorized(c *call, code, text string) bool {
	c.rw.Header().Set("WWW-Authenticate", challenge(c.e.oauth, code, text))
	return refuse(c, http.StatusUnauthorized, "unauthorized", text)
}

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
	if len(values) != 1 || len(values[0]) < 8 || len(values[0]) > 16<<10 {
		return ""
	}
	text := values[0][7:]
	if scheme := values[0][:7]; scheme != "Bearer " && !strings.EqualFold(scheme, "bearer ") {
		return ""
	}
	if text[0] == ' ' {
		text = strings.TrimLeft(text, " ")
	}
	if strings.ContainsAny(text, " \t,") {
		return ""
	}
	return text
}

// authenticate finds the principal. The body is not read before.
func authenticate(c *call) bool {
	e := c.e
	if e.hasFiles {
		refresh(e, c.start)
	}
	t := e.table.Load().(*table)
	c.secrets = t
	values := c.r.Header["Authorization"]
	if len(values) != 1 || len(values[0]) < 8 || values[0][:7] != "Bearer " {
		return authenticateOther(c)
	}
	i := match(t.sums, values[0][7:])
	if i < 0 {
		return authenticateOther(c)
	}
	found := e.tokens[i]
	c.who = found.who
	return found.expires == nil || notExpired(c, found)
}

func notExpired(c *call, t *token) bool {
	return c.start.Before(*t.expires) || wrongToken(c, "the token "+t.who.id+" has expired")
}

// authenticateOther is for what is not a static token in its plainest form.
func authenticateOther(c *call) bool {
	text := bearerToken(c.r.Header["Authorization"])
	i := match(c.secrets.sums, text)
	switch {
	case i >= 0:
		c.who = c.e.tokens[i].who
		return c.e.tokens[i].expires == nil || notExpired(c, c.e.tokens[i])
	case len(c.r.Header["Authorization"]) == 0:
		return unauthorized(c, "", "send Authorization: Bearer <token>")
	case text == "":
		return wrongToken(c, "Authorization must be there once, as Bearer <token>")
	case c.e.oauth != nil && strings.Count(text, ".") == 2:
		return authenticateJWT(c, text)
	}
	return wrongToken(c, "the token is not known here")
}

// match returns the index of the hash of text, or -1. It compares with every
// one, so that the time says nothing about which one was near.
func match(sums [][]byte, text string) int {
	sum := sha256.Sum256([]byte(text))
	given := sum[:]
	found := -1
	for i := range sums {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(given, sums[i]), i, found)
	}
	return found
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

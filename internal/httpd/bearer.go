package httpd

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// Bearer lets through what carries "Authorization: Bearer <token>" exactly
// once; all else is 401 with a bare WWW-Authenticate: Bearer, which tells
// clients that no OAuth is on offer. Hashes are compared, so that neither the
// time nor the length of the comparison says anything about the token.
func Bearer(token string) Step {
	want := sha256.Sum256([]byte(token))
	return func(next http.Handler) http.Handler { return bearer(want, next) }
}

func bearer(want [sha256.Size]byte, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !authorized(r.Header, &want) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "unauthorized: send this backend's token as Authorization: Bearer", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// authorized is not part of the handler: what a handler keeps on its stack, each idle
// stream below it keeps too, and beyond 4 KiB the stack is twice as large.
//
//go:noinline
func authorized(h http.Header, want *[sha256.Size]byte) bool {
	got := sha256.Sum256([]byte(bearerToken(h)))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// bearerToken is the token of the one Authorization header, else "". The
// scheme's case does not matter (RFC 9110, section 11.1).
func bearerToken(h http.Header) string {
	values := h.Values("Authorization")
	if len(values) != 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return token
}

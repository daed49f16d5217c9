// Package auth stands in for the module of this name, which the test build of
// Traefik cannot fetch. It has the names that Traefik's basicAuth and
// digestAuth middlewares use, and it refuses everyone.
package auth

import "net/http"

// BasicAuth refuses every request.
type BasicAuth struct {
	Realm   string
	Secrets func(user, realm string) string
}

// RequireAuth answers 401.
func (*BasicAuth) RequireAuth(w http.ResponseWriter, _ *http.Request) { refuse(w) }

// CheckSecret says no, whatever it is given.
func CheckSecret(_, _ string) bool { return false }

// DigestAuth refuses every request.
type DigestAuth struct{}

// NewDigestAuthenticator returns a DigestAuth that refuses everyone.
func NewDigestAuthenticator(string, func(user, realm string) string) *DigestAuth {
	return &DigestAuth{}
}

// CheckAuth names no user.
func (*DigestAuth) CheckAuth(*http.Request) (username string, authinfo *string) { return "", nil }

// RequireAuth answers 401.
func (*DigestAuth) RequireAuth(w http.ResponseWriter, _ *http.Request) { refuse(w) }

// RequireAuthStale answers 401.
func (*DigestAuth) RequireAuthStale(w http.ResponseWriter, _ *http.Request) { refuse(w) }

// DigestAuthParams finds no parameters.
func DigestAuthParams(string) map[string]string { return nil }

func refuse(w http.ResponseWriter) {
	http.Error(w, "this build of Traefik authenticates nobody", http.StatusUnauthorized)
}

package shared

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Guard answers 403 to a foreign Host or Origin, which is what a page that
// rebinds its name to this machine sends (MCP 2025-11-25, transports, Security
// Warning). hosts holds names without a port; the single "*" allows any. A
// request without Origin is not from a page and passes.
func Guard(hosts, origins []string, next http.Handler) http.Handler {
	anyHost := slices.Contains(hosts, "*")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !anyHost && !slices.Contains(hosts, hostName(r.Host)) {
			http.Error(w, "forbidden: this Host is not in MCP_ALLOWED_HOSTS", http.StatusForbidden)
			return
		}
		for _, origin := range r.Header.Values("Origin") {
			if !slices.Contains(origins, strings.ToLower(origin)) {
				http.Error(w, "forbidden: this Origin is not in MCP_ALLOWED_ORIGINS", http.StatusForbidden)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// hostName is the lower-case name or address of a Host header, without port
// and brackets.
func hostName(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	return strings.ToLower(host)
}

// isHost reports whether s can stand in MCP_ALLOWED_HOSTS.
func isHost(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil || s == "*" {
		return true
	}
	return !strings.ContainsAny(s, ":/*[] ")
}

// isOrigin reports whether s is what a browser sends as Origin: a scheme, a
// host, perhaps a port, and nothing after it (RFC 6454, section 7).
func isOrigin(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && u.Scheme+"://"+u.Host == s && s == strings.ToLower(s)
}

// RefuseMethod answers 405 with what is allowed instead.
func RefuseMethod(w http.ResponseWriter, allow string) {
	w.Header().Set("Allow", allow)
	http.Error(w, "method not allowed here", http.StatusMethodNotAllowed)
}

// RefuseSession answers an error of Sessions: 503 where there is no room, 403
// to whoever does not own the session, 404 otherwise.
func RefuseSession(w http.ResponseWriter, err error) {
	switch err {
	case ErrSessionsFull:
		w.Header().Set("Retry-After", "30")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case ErrNotOwner:
		http.Error(w, err.Error(), http.StatusForbidden)
	default:
		http.Error(w, err.Error(), http.StatusNotFound)
	}
}

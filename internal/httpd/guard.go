package httpd

import (
	"net"
	"net/http"
	"slices"
	"strings"
)

// Guard answers 403 to a foreign Host or Origin, which is what a page that
// rebinds its name to this machine sends (MCP 2025-11-25, transports, Security
// Warning). hosts holds names without a port; the single "*" allows any. A
// request without Origin is not from a page and passes.
func Guard(hosts, origins []string) Step {
	return func(next http.Handler) http.Handler { return guard(hosts, origins, next) }
}

func guard(hosts, origins []string, next http.Handler) http.Handler {
	anyHost := slices.Contains(hosts, "*")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !anyHost && !slices.Contains(hosts, hostName(r.Host)):
			http.Error(w, "forbidden: this Host is not in MCP_ALLOWED_HOSTS", http.StatusForbidden)
		case !originsAllowed(origins, r.Header):
			http.Error(w, "forbidden: this Origin is not in MCP_ALLOWED_ORIGINS", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func originsAllowed(origins []string, h http.Header) bool {
	return !slices.ContainsFunc(h.Values("Origin"), func(o string) bool {
		return !slices.Contains(origins, strings.ToLower(o))
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

// RefuseMethod answers 405 with what is allowed instead.
func RefuseMethod(w http.ResponseWriter, allow string) {
	w.Header().Set("Allow", allow)
	http.Error(w, "method not allowed here", http.StatusMethodNotAllowed)
}

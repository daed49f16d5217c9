package plugin

import (
	"net/http"
	"net/url"
	"strings"
)

// place is what is needed to map an endpoint event: the request as the client
// and as the backend saw it.
type place struct {
	prefix  string // public
	backend string // path that prefix is mapped to
	base    string // the request's escaped path at the backend
	host    string
	scheme  string // of the client
}

func newPlace(e *edge, r *http.Request) place {
	scheme := "http"
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	return place{prefix: e.prefix, backend: e.backendPath, host: r.Host, scheme: scheme,
		base: e.backendPath + r.URL.EscapedPath()[len(e.prefix):]}
}

// publicEndpoint maps the reference in an endpoint event to a path that clients
// may post to, or says why it cannot: a client posts its token there.
//
// Browsers and servers read odd references in many ways (WHATWG URL, RFC 3986),
// so everything odd is refused.
func publicEndpoint(p place, ref string) (string, string) {
	ref = strings.NewReplacer("\n", "", "\t", "", "\r", "").Replace(strings.Trim(ref, "\x00\f\v\r\n\t ")) // as WHATWG URL does
	ref, _, _ = strings.Cut(ref, "#")
	path, query, hasQuery := strings.Cut(ref, "?")
	if hasQuery {
		query = "?" + query
	}
	u, err := url.Parse(path)
	switch {
	case strings.ContainsAny(ref, forbiddenInRef):
		return "", "it has a backslash, a space or a control character"
	case err != nil || u.User != nil || u.Opaque != "" || ((u.Scheme != "" || strings.HasPrefix(path, "//")) && u.Host == ""):
		return "", "it is not a plain URL"
	case u.Host != "" && !ownOrigin(p, u):
		return "", "it is on another origin"
	}
	path = u.EscapedPath()
	switch {
	case u.Host == "" && path == "":
		path = p.base
	case path == "":
		path = "/"
	case path[0] != '/':
		path = p.base[:strings.LastIndexByte(p.base, '/')+1] + strings.TrimPrefix(path, "./")
	}
	if strings.Contains(path, "//") || hasDotSegment(path) {
		return "", "it has an empty or a dot segment, or parameters"
	}
	public, ok := publicPath(p, path)
	if !ok {
		return "", "it is outside the backend's path"
	}
	return public + query, ""
}

const forbiddenInRef = "\\ " + controls

// ownOrigin accepts the client's own origin, and plain http to the same host,
// which is how a backend behind TLS sees itself.
func ownOrigin(p place, u *url.URL) bool {
	scheme := u.Scheme
	if scheme == "" {
		scheme = p.scheme
	}
	port := ":80"
	if scheme == "https" {
		port = ":443"
	}
	return (scheme == p.scheme || scheme == "http") &&
		strings.EqualFold(strings.TrimSuffix(u.Host, port), strings.TrimSuffix(p.host, port))
}

// publicPath maps an absolute path of the backend. A backend that already knows
// its public prefix is not prefixed twice; one behind StripPrefix does not know
// the prefix that it is given.
func publicPath(p place, path string) (string, bool) {
	nested := insidePath(p.backend, p.prefix) // then the longer one is asked first
	switch {
	case nested && insidePath(path, p.backend):
		return p.prefix + path[len(p.backend):], true
	case insidePath(path, p.prefix):
		return path, true
	case insidePath(path, p.backend):
		return p.prefix + path[len(p.backend):], true
	}
	return p.prefix + path, p.backend == p.prefix
}

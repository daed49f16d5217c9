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
	ref = strings.Trim(ref, "\x00\t\n\r\f\v ")
	ref = strings.NewReplacer("\n", "", "\t", "", "\r", "").Replace(ref) // as WHATWG URL does
	ref, _, _ = strings.Cut(ref, "#")
	if strings.ContainsAny(ref, forbiddenInRef) {
		return "", "it has a backslash, a space or a control character"
	}
	path, query, hasQuery := strings.Cut(ref, "?")
	if hasQuery {
		query = "?" + query
	}
	path, why := ownPath(p, path)
	if why != "" {
		return "", why
	}
	if path == "" { // query only: the stream's own path
		path = p.base
	} else if path[0] != '/' {
		if path, why = joinRelative(p, path); why != "" {
			return "", why
		}
	} else if hasDots(path) {
		return "", "it has dot segments"
	}
	if strings.Contains(path, "//") || strings.Contains(path, ";") {
		return "", "it has an empty segment or parameters"
	}
	public, ok := publicPath(p, path)
	if !ok {
		return "", "it is outside the backend's path"
	}
	return public + query, ""
}

const forbiddenInRef = "\\ \x00\x01\x02\x03\x04\x05\x06\x07\x08\x0b\x0c\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x7f"

// ownPath takes scheme and host away where they are the client's own, or plain
// http to the same host, which is how a backend behind TLS sees itself.
func ownPath(p place, path string) (string, string) {
	slashes := strings.HasPrefix(path, "//")
	colon := strings.IndexByte(path, ':')
	if slash := strings.IndexByte(path, '/'); !slashes && (colon < 0 || (slash >= 0 && slash < colon)) {
		return path, ""
	}
	u, err := url.Parse(path)
	if err != nil || u.Host == "" || u.User != nil || u.Opaque != "" {
		return "", "it is not a plain URL"
	}
	scheme := u.Scheme
	if scheme == "" {
		scheme = p.scheme
	}
	if (scheme != p.scheme && scheme != "http") || !sameHost(u.Host, scheme, p.host, scheme) {
		return "", "it is on another origin"
	}
	if rest := u.EscapedPath(); rest != "" {
		return rest, ""
	}
	return "/", ""
}

func sameHost(a, schemeA, b, schemeB string) bool {
	return strings.EqualFold(withoutDefaultPort(a, schemeA), withoutDefaultPort(b, schemeB))
}

func withoutDefaultPort(host, scheme string) string {
	if scheme == "https" {
		return strings.TrimSuffix(host, ":443")
	}
	return strings.TrimSuffix(host, ":80")
}

// joinRelative resolves path against the stream's own path, and refuses to
// climb above the root, where URL parsers would stop silently.
func joinRelative(p place, path string) (string, string) {
	segments := strings.Split(p.base, "/")
	segments = segments[:len(segments)-1]
	for _, s := range strings.Split(path, "/") {
		switch {
		case s == ".":
		case s == "..":
			if len(segments) <= 1 {
				return "", "it climbs above the root"
			}
			segments = segments[:len(segments)-1]
		case hasDots("/" + s):
			return "", "it has hidden dot segments"
		default:
			segments = append(segments, s)
		}
	}
	return strings.Join(segments, "/"), ""
}

// hasDots finds dot segments, escaped ones too.
func hasDots(path string) bool {
	return hasDotSegment(strings.NewReplacer("%2e", ".", "%2E", ".", "%3b", ";", "%3B", ";").Replace(path))
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

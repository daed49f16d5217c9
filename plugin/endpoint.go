package plugin

import (
	"net/url"
	"regexp"
	"strings"
)

// mapping is what is needed to map an address: the request as the client and as
// the backend saw it.
type mapping struct {
	prefix  string // public
	backend string // path that prefix is mapped to
	base    string // the request's escaped path at the backend
	host    string
	scheme  string          // of the client
	inner   map[string]bool // further origins of the backend
}

func newMapping(c *call) mapping {
	r := c.r
	e := c.e
	scheme := "http"
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	return mapping{prefix: e.prefix, backend: e.backendPath, host: r.Host, scheme: scheme, inner: e.inner,
		base: e.backendPath + c.path[len(e.prefix):]}
}

// publicEndpoint maps the reference in an endpoint event, or in a header that
// clients follow, to a path that they may send their token to, or says why it
// cannot.
//
// Browsers and servers read odd references in many ways (WHATWG URL, RFC 3986),
// so everything odd is refused.
func publicEndpoint(p mapping, ref string) (string, string) {
	// as WHATWG URL does
	ref = strings.NewReplacer("\n", "", "\t", "", "\r", "").Replace(strings.Trim(ref, "\x00\f\v\r\n\t "))
	ref, _, _ = strings.Cut(ref, "#")
	path, query, hasQuery := strings.Cut(ref, "?")
	if hasQuery {
		query = "?" + query
	}
	u, err := url.Parse(path)
	switch {
	case badInRef.MatchString(ref):
		return "", "it has a backslash, a space or a character that no URL has"
	case err != nil || u.User != nil || u.Opaque != "" ||
		((u.Scheme != "" || strings.HasPrefix(path, "//")) && u.Host == ""):
		return "", "it is not a plain URL"
	case u.Host != "" && !ownOrigin(p, u) && !innerOrigin(p, u):
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

var badInRef = regexp.MustCompile(`[^\x21-\x5b\x5d-\x7e]`)

// ownOrigin accepts the client's own origin, and plain http to the same host,
// which is how a backend behind TLS sees itself.
func ownOrigin(p mapping, u *url.URL) bool {
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

// innerOrigin accepts what the backend may name itself by behind the edge: an
// origin of the configuration, and loopback. Only the path is used.
func innerOrigin(p mapping, u *url.URL) bool {
	host := strings.ToLower(u.Hostname())
	if u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	return host == "localhost" || host == "::1" || loopbackForm.MatchString(host) ||
		p.inner[u.Scheme+"://"+strings.ToLower(u.Host)]
}

var loopbackForm = regexp.MustCompile(`^127\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}$`)

// publicPath maps an absolute path of the backend. A backend that already knows
// its public prefix is not prefixed twice; one behind StripPrefix does not know
// the prefix that it is given.
func publicPath(p mapping, path string) (string, bool) {
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

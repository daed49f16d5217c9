package plugin

import (
	"net/http"
	"strings"
	"time"
)

// insidePath says whether path is prefix or below it at a segment boundary. A
// prefix of "" is the root.
func insidePath(path, prefix string) bool {
	return strings.HasPrefix(path, prefix) && (len(path) == len(prefix) || path[len(prefix)] == '/')
}

// plainPath says whether every server behind reads path and its escaped form
// alike: no dot segments, no second decoding, no empty segments.
func plainPath(path, escaped string) bool {
	if path == "" || path[0] != '/' || strings.ContainsAny(path, badInPath) || strings.Contains(path, "//") {
		return false
	}
	if strings.Contains(path, "/.") && hasDotSegment(path) {
		return false
	}
	if path == escaped {
		return true
	}
	lower := strings.ToLower(escaped)
	return !strings.Contains(lower, "%2f") && !strings.Contains(lower, "%2e")
}

const badInPath = "\\;?#%\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f\x1b\x7f"

// hasDotSegment finds . and .. as segments, also with parameters behind (..;x),
// which servlet containers resolve.
func hasDotSegment(path string) bool {
	for _, s := range strings.Split(path, "/") {
		s, _, _ = strings.Cut(s, ";")
		if s == "." || s == ".." {
			return true
		}
	}
	return false
}

// checkPath is the first refusal: what the request is for, and its form.
func checkPath(c *call) bool {
	e := c.e
	r := c.r
	path := r.URL.Path
	escaped := r.URL.EscapedPath()
	if strings.Contains(path, "/.well-known/") {
		return wellKnown(c, path)
	}
	if r.URL.Opaque != "" || !plainPath(path, escaped) || !insidePath(path, e.prefix) || !insidePath(escaped, e.prefix) {
		hintStripPrefix(c)
		return refuse(c, http.StatusNotFound, "path", "there is no MCP server at this path")
	}
	if len(r.Header["Upgrade"]) > 0 {
		return refuse(c, http.StatusBadRequest, "upgrade", "this endpoint does not change protocols")
	}
	switch r.Method {
	case http.MethodPost:
		return true
	case http.MethodGet, http.MethodHead, http.MethodDelete:
		if r.ContentLength != 0 {
			return refuse(c, http.StatusBadRequest, "body", "only POST may have a body")
		}
		return true
	}
	c.rw.Header().Set("Allow", "GET, HEAD, POST, DELETE")
	return refuse(c, http.StatusMethodNotAllowed, "http method", "this endpoint serves GET, HEAD, POST and DELETE")
}

// hintStripPrefix says at most once a minute why a request with a stripped
// prefix is not found: Traefik's StripPrefix leaves the header behind.
func hintStripPrefix(c *call) {
	e := c.e
	if e.prefix == "" || !contains(c.r.Header["X-Forwarded-Prefix"], e.prefix) {
		return
	}
	e.mu.Lock()
	due := c.start.Sub(e.hinted) >= time.Minute
	if due {
		e.hinted = c.start
	}
	e.mu.Unlock()
	if due {
		logLine(e, "warn", "a request came without "+e.prefix+": put StripPrefix after this middleware, or remove it and set backendPath")
	}
}

// checkOrigin refuses pages of other sites (DNS rebinding). A request without
// Origin passes: only browsers are bound to send it.
func checkOrigin(c *call) bool {
	values := c.r.Header["Origin"]
	if len(values) == 0 || (len(values) == 1 && c.e.origins[values[0]]) {
		return true
	}
	return refuse(c, http.StatusForbidden, "origin", "this Origin is not in allowedOrigins")
}

package plugin

import (
	"net/http"
	"strings"
	"unicode/utf8"
)

// insidePath says whether path is prefix or below it at a segment boundary. A
// prefix of "" is the root.
func insidePath(path, prefix string) bool {
	return strings.HasPrefix(path, prefix) && (len(path) == len(prefix) || path[len(prefix)] == '/')
}

// badInPath are characters that a server behind may take for something else than
// the router did, after a second decoding too.
const badInPath = "\\;?#%" + controls

const controls = "" +
	"\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f" +
	"\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x7f"

// hasDotSegment finds . and .. as segments, escaped too, and parameters, which
// could hide them (..;x): servlet containers resolve those.
func hasDotSegment(path string) bool {
	path = strings.NewReplacer("%2e", ".", "%2E", ".", "%3b", ";", "%3B", ";").Replace(path) + "/"
	return strings.Contains(path, "/./") || strings.Contains(path, "/../") || strings.Contains(path, ";")
}

// checkPath is the first refusal: whether every server behind reads the path
// alike. The fast path has recognised common ones already.
func checkPath(c *call) bool {
	u := c.r.URL
	path := u.Path
	if strings.Contains(path, "/.well-known/") {
		return wellKnown(c, path)
	}
	escaped := u.EscapedPath()
	if path == "" || u.Opaque != "" || !insidePath(path, c.e.prefix) || !insidePath(escaped, c.e.prefix) ||
		strings.ContainsAny(path, badInPath) || !utf8.ValidString(path) || strings.Contains(path, "//") ||
		hasDotSegment(path) ||
		strings.Contains(strings.ToLower(escaped), "%2f") || strings.Contains(strings.ToLower(escaped), "%2e") {
		if contains(c.r.Header["X-Forwarded-Prefix"], c.e.prefix) { // which StripPrefix leaves behind
			c.e.log.Warn("a request came without " + c.e.prefix +
				": put StripPrefix after this middleware, or remove it and set backendPath")
		}
		return refuse(c, http.StatusNotFound, "path", "there is no MCP server at this path")
	}
	return true
}

// served are the methods of requests. HEAD is served where the edge answers
// itself only: a proxy gives the connection of a HEAD back to its pool at once,
// and a handler that serves GET and HEAD alike keeps the next request on it
// waiting.
var served = map[string]bool{"POST": true, "DELETE": true, "GET": true}

// refuseForm refuses other methods, bodies where none belong, and WebSocket. Any
// other offer in Upgrade a server may ignore (RFC 9110, section 7.8): some clients
// offer h2c or TLS with every first request.
func refuseForm(c *call) bool {
	h := c.r.Header
	switch {
	case strings.Contains(strings.ToLower(strings.Join(h["Upgrade"], ",")), "websocket"):
		return refuse(c, http.StatusBadRequest, "upgrade", "this endpoint does not change protocols")
	case !served[c.method]:
		c.rw.Header().Set("Allow", "GET, POST, DELETE")
		return refuse(c, http.StatusMethodNotAllowed, "http_method", "this endpoint serves GET, POST and DELETE")
	case c.method != "POST" && c.r.ContentLength != 0:
		return refuse(c, http.StatusBadRequest, "body", "only POST may have a body")
	}
	delete(h, "Upgrade")
	delete(h, "Http2-Settings")
	return true
}

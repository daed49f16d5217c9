package plugin

import (
	"net/http"
	"strings"
)

// insidePath says whether path is prefix or below it at a segment boundary. A
// prefix of "" is the root.
func insidePath(path, prefix string) bool {
	return strings.HasPrefix(path, prefix) && (len(path) == len(prefix) || path[len(prefix)] == '/')
}

// badInPath are characters that a server behind may take for something else than
// the router did, after a second decoding too.
const badInPath = "\\;?#%\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f\x1b\x7f"

// hasDotSegment finds . and .. as segments, escaped too, and parameters, which
// could hide them (..;x): servlet containers resolve those.
func hasDotSegment(path string) bool {
	path = strings.NewReplacer("%2e", ".", "%2E", ".", "%3b", ";", "%3B", ";").Replace(path) + "/"
	return strings.Contains(path, "/./") || strings.Contains(path, "/../") || strings.Contains(path, ";")
}

// checkPath is the first refusal: what the request is for, its form, and whether
// every server behind reads its path alike.
func checkPath(c *call) bool {
	u := c.r.URL
	path := u.Path
	n := len(c.e.prefix)
	if u.RawPath == "" && u.Opaque == "" && len(path) > n && path[n] == '/' && path[:n] == c.e.prefix &&
		!strings.ContainsAny(path, badInPath) && !strings.Contains(path, "//") && !strings.Contains(path, "/.") {
		return checkForm(c)
	}
	return checkOddPath(c)
}

// checkOddPath looks closer at a path that is not plain.
func checkOddPath(c *call) bool {
	u := c.r.URL
	path := u.Path
	if strings.Contains(path, "/.well-known/") {
		return wellKnown(c, path)
	}
	escaped := u.EscapedPath()
	if path == "" || u.Opaque != "" || !insidePath(path, c.e.prefix) || !insidePath(escaped, c.e.prefix) ||
		strings.ContainsAny(path, badInPath) || strings.Contains(path, "//") || hasDotSegment(path) ||
		strings.Contains(strings.ToLower(escaped), "%2f") || strings.Contains(strings.ToLower(escaped), "%2e") {
		if contains(c.r.Header["X-Forwarded-Prefix"], c.e.prefix) { // which StripPrefix leaves behind
			logLine(c.e, "warn", "a request came without "+c.e.prefix+": put StripPrefix after this middleware, or remove it and set backendPath")
		}
		return refuse(c, http.StatusNotFound, "path", "there is no MCP server at this path")
	}
	return checkForm(c)
}

// checkForm refuses other methods, bodies where none belong, and Upgrade.
func checkForm(c *call) bool {
	return c.r.Header["Upgrade"] == nil && (c.method == "POST" || (c.r.ContentLength == 0 && bodiless[c.method])) || refuseForm(c)
}

var bodiless = map[string]bool{"GET": true, "HEAD": true, "DELETE": true}

func refuseForm(c *call) bool {
	switch {
	case len(c.r.Header["Upgrade"]) > 0:
		return refuse(c, http.StatusBadRequest, "upgrade", "this endpoint does not change protocols")
	case bodiless[c.method]:
		return refuse(c, http.StatusBadRequest, "body", "only POST may have a body")
	}
	c.rw.Header().Set("Allow", "GET, HEAD, POST, DELETE")
	return refuse(c, http.StatusMethodNotAllowed, "http method", "this endpoint serves GET, HEAD, POST and DELETE")
}

// checkOrigin refuses pages of other sites (DNS rebinding). It is asked where
// there is an Origin at all: only browsers are bound to send it.
func checkOrigin(c *call) bool {
	if values := c.r.Header["Origin"]; len(values) == 1 && c.e.origins[values[0]] {
		return true
	}
	return refuse(c, http.StatusForbidden, "origin", "this Origin is not in allowedOrigins")
}

package plugin

import (
	"net/http"
	"strings"
)

// dropped are the headers that never reach a backend: those that the edge or a
// proxy alone may set, those that would change the method or path after the
// decision, and those of one hop.
var dropped = map[string]bool{
	"Forwarded": true, "X-Forwarded-Prefix": true, "X-Original-Url": true, "X-Original-Uri": true,
	"X-Rewrite-Url": true, "X-Replaced-Path": true, "X-Http-Method-Override": true, "X-Http-Method": true,
	"X-Method-Override": true, "Authorization": true, "Proxy-Authorization": true, "Proxy-Connection": true,
	"Connection": true, "Keep-Alive": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Expect": true,
}

// forward is reached by what no refusal stopped.
func forward(c *call) {
	e := c.e
	r := c.r
	h := r.Header
	clean(h)
	r.Trailer = nil
	if e.backendToken != nil {
		h["Authorization"] = c.secrets.backend
		if c.secrets.backend == nil {
			noBackendToken(c)
			return
		}
	}
	if e.cfg.Backend != "other" {
		h["X-Sallyport-Principal"] = c.who.header
		h["X-Sallyport-Tools"] = c.who.grants.toolsHeader
		if c.who.grants.askHeader != nil {
			h["X-Sallyport-Ask"] = c.who.grants.askHeader
		}
	}
	if c.method == "GET" || (c.method == "POST" && e.cfg.Backend == "other") {
		forwardStream(c)
		return
	}
	mapPath(r, e)
	e.next.ServeHTTP(c.rw, r)
}

func noBackendToken(c *call) {
	refuse(c, http.StatusServiceUnavailable, "backend token", "the backend's token cannot be read: see the log")
}

func forwardStream(c *call) {
	w := newStreamWriter(c)
	mapPath(c.r, c.e)
	if w == nil {
		c.e.next.ServeHTTP(c.rw, c.r)
		return
	}
	c.e.next.ServeHTTP(w, c.r)
	w.end()
}

// clean drops headers. Those with an underscore or a dot go because many servers
// read both as hyphens, so they could be taken for one of ours; Mcp-Param- names
// come from tool schemas and end in anything.
func clean(h http.Header) {
	for key := range h {
		if dropped[key] || (strings.ContainsAny(key, "_.") && !strings.HasPrefix(key, "Mcp-Param-")) ||
			(len(key) > 9 && (key[:10] == "X-Sallypor" || key[:10] == "Tailscale-")) {
			delete(h, key)
		}
	}
}

// mapPath replaces prefix by backendPath. Both of Traefik's proxies parse
// RequestURI again, so it is set with the path, always: what was decided on is
// what is sent.
func mapPath(r *http.Request, e *edge) {
	if e.prefix != e.backendPath {
		replacePrefix(r, e.prefix, e.backendPath)
	}
	r.RequestURI = r.URL.RequestURI()
}

func replacePrefix(r *http.Request, prefix, backendPath string) {
	u := r.URL
	escaped := u.EscapedPath()
	u.RawPath = orRoot(backendPath + escaped[len(prefix):])
	u.Path = orRoot(backendPath + u.Path[len(prefix):])
	removed := strings.TrimSuffix(prefix, backendPath)
	if removed != "" && removed+backendPath == prefix {
		r.Header["X-Forwarded-Prefix"] = []string{removed}
	}
}

func orRoot(path string) string {
	if path == "" {
		return "/"
	}
	return path
}

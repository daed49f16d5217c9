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
	for key := range h {
		if dropped[key] || private(key) {
			delete(h, key)
		}
	}
	r.Trailer = nil
	if e.backendToken != nil {
		if c.secrets.backend == "" {
			refuse(c, http.StatusServiceUnavailable, "backend token", "the backend's token cannot be read: see the log")
			return
		}
		h["Authorization"] = []string{"Bearer " + c.secrets.backend}
	}
	if e.cfg.Backend != "other" {
		g := c.who.grants
		h["X-Sallyport-Principal"] = []string{c.who.id}
		h["X-Sallyport-Tools"] = []string{g.toolsHeader}
		if g.askHeader != "" {
			h["X-Sallyport-Ask"] = []string{g.askHeader}
		}
	}
	from := r.URL.EscapedPath()
	mapPath(r, e.prefix, e.backendPath)
	if w := newStreamWriter(c, from); w != nil {
		e.next.ServeHTTP(w, r)
		w.end()
		return
	}
	e.next.ServeHTTP(c.rw, r)
}

// private says whether a header is one of ours or Tailscale's, or could be taken
// for another one: many servers read underscores and dots as hyphens.
// Mcp-Param- names come from tool schemas and end in anything.
func private(key string) bool {
	if strings.ContainsAny(key, "_.") {
		return !strings.HasPrefix(key, "Mcp-Param-")
	}
	switch key[0] {
	case 'X', 'x':
		return strings.HasPrefix(key, "X-Sallyport-")
	case 'T', 't':
		return strings.HasPrefix(key, "Tailscale-")
	}
	return false
}

// mapPath replaces prefix by backendPath. Both of Traefik's proxies parse
// RequestURI again, so it is set with the path, always: what was decided on is
// what is sent.
func mapPath(r *http.Request, prefix, backendPath string) {
	u := r.URL
	if prefix != backendPath {
		escaped := u.EscapedPath()
		u.RawPath = orRoot(backendPath + escaped[len(prefix):])
		u.Path = orRoot(backendPath + u.Path[len(prefix):])
		removed := strings.TrimSuffix(prefix, backendPath)
		if removed != "" && removed+backendPath == prefix {
			r.Header["X-Forwarded-Prefix"] = []string{removed}
		}
	}
	r.RequestURI = u.RequestURI()
}

func orRoot(path string) string {
	if path == "" {
		return "/"
	}
	return path
}

package plugin

import (
	"net/http"
	"strings"
	"time"
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

// fine are headers that pass as they are, or that forward sets.
var fine = map[string]bool{
	"Accept": true, "Accept-Encoding": true, "Accept-Language": true, "Authorization": true, "Cache-Control": true,
	"Content-Length": true, "Content-Type": true, "Cookie": true, "Last-Event-Id": true, "Mcp-Method": true, "Mcp-Name": true,
	"Mcp-Protocol-Version": true, "Mcp-Session-Id": true, "Origin": true, "Pragma": true, "Referer": true,
	"Sec-Fetch-Dest": true, "Sec-Fetch-Mode": true, "Sec-Fetch-Site": true, "Traceparent": true, "User-Agent": true,
	"X-Forwarded-For": true, "X-Forwarded-Host": true, "X-Forwarded-Port": true, "X-Forwarded-Proto": true,
	"X-Forwarded-Server": true, "X-Real-Ip": true,
}

// lasting is how long a POST may be answered, in nanoseconds, before it counts
// whether its token expires meanwhile.
const lasting = int64(time.Hour)

// forward is reached by what no refusal stopped.
func forward(c *call, plain bool) {
	e := c.e
	r := c.r
	h := r.Header
	for key := range h {
		if !fine[key] && unfit(key) {
			delete(h, key)
		}
	}
	r.Trailer = nil
	h["Authorization"] = c.secrets.backend
	if h["Authorization"] == nil && !noBackendToken(c) {
		return
	}
	if !e.foreign {
		g := c.who.grants
		h["X-Sallyport-Principal"] = c.who.header
		h["X-Sallyport-Tools"] = g.toolsHeader
		if g.askHeader != nil {
			h["X-Sallyport-Ask"] = g.askHeader
		}
		if c.who.egress != nil {
			h["X-Sallyport-Egress"] = c.who.egress
		}
		h["X-Sallyport-Request"] = []string{c.id}
	}
	if e.foreign || c.kind == streams || c.who.grant != "" || c.who.until-c.now < lasting {
		forwardStream(c)
		return
	}
	if !plain || e.prefix != e.backendPath {
		mapPath(r, e)
	}
	e.next.ServeHTTP(c.rw, r)
}

// noBackendToken lets pass where the backend has no token, and refuses where it
// has one that cannot be read.
func noBackendToken(c *call) bool {
	delete(c.r.Header, "Authorization")
	return c.e.backendToken == nil || refuse(c, http.StatusServiceUnavailable, "backend token", "the backend's token cannot be read: see the log")
}

// forwardStream stands before answers that may have to be changed.
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

// unfit says which headers never pass. Those with an underscore or a dot do not
// because many servers read both as hyphens, so they could be taken for one of
// ours; Mcp-Param- names come from tool schemas and end in anything.
func unfit(key string) bool {
	return dropped[key] || (strings.ContainsAny(key, "_.") && !strings.HasPrefix(key, "Mcp-Param-")) ||
		strings.HasPrefix(key, "X-Sallypor") || strings.HasPrefix(key, "Tailscale-")
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
	u.RawPath = backendPath + escaped[len(prefix):]
	u.Path = backendPath + u.Path[len(prefix):]
	if u.Path == "" {
		u.RawPath = "/"
		u.Path = "/"
	}
	removed := strings.TrimSuffix(prefix, backendPath)
	if removed != "" && removed+backendPath == prefix {
		r.Header["X-Forwarded-Prefix"] = []string{removed}
	}
}

package plugin

import (
	"net/http"
	"strings"
)

// forward is reached by what no refusal stopped.
func forward(c *call, plain bool) {
	e := c.e
	r := c.r
	h := r.Header
	if !c.known && !checkHeaders(c, plain) {
		return
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
	h["Accept-Encoding"] = identity // what is encoded cannot be looked at
	if plain {
		c.path = r.RequestURI
	} else {
		c.path = r.URL.EscapedPath()
	}
	if !plain || e.prefix != e.backendPath {
		mapPath(r, e)
	}
	counters.Add(allowed, 1)
	w := &answerWriter{ResponseWriter: c.rw, c: c, looks: e.cfg.FilterTools || c.method == "GET"}
	e.next.ServeHTTP(w, r)
	if !w.untouched || len(w.ResponseWriter.Header()) != w.names {
		w.end()
	}
}

// maxHeaders bounds the names of headers, before anything reads them: recognizing takes
// more than net/http does, and interpreted code looks at each.
const maxHeaders = 256

// dropHeaders takes out what must not reach the backend.
func dropHeaders(c *call) bool {
	h := c.r.Header
	for key := range h {
		if !fine[key] && (neverFits(key) || (namesSomebody(key) && !c.e.passOn[key])) {
			delete(h, key)
			dropped(c, "a request", key)
		}
	}
	return true
}

var identity = []string{"identity"}

// noBackendToken lets pass where the backend has no token, and refuses where it
// has one that cannot be read.
func noBackendToken(c *call) bool {
	delete(c.r.Header, "Authorization")
	return c.e.backendToken == nil || refuse(c, http.StatusServiceUnavailable, "backend_token",
		"the backend's token cannot be read: see the log")
}

// maxNames bounds what dropped remembers: some names are a client's choice.
const maxNames = 100

// dropped writes one line for each name of a header that did not pass and that a
// setting would let through.
func dropped(c *call, of, key string) {
	e := c.e
	setting := map[string]string{"a request": "requestHeaders", "an answer": "responseHeaders"}[of]
	if never[key] || challenges[key] || (of == "a request" && neverFits(key)) {
		return
	}
	e.mu.Lock()
	known := e.told[of+key] || len(e.told) >= maxNames
	e.told[of+key] = true
	e.mu.Unlock()
	if !known {
		e.log.Warn(of + " had the header " + short(key) + ", which does not pass; " + setting + " lets it through")
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

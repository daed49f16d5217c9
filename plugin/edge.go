package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// edge is one instance of the middleware. Traefik makes one per router and at
// every reload, so what must live longer is in package-level registries.
type edge struct {
	cfg          *Config
	next         http.Handler
	name         string
	prefix       string         // "" is the root
	alike        *regexp.Regexp // paths inside it that every server reads alike
	backendPath  string         // what prefix is mapped to
	origins      map[string]bool
	tokens       []*token
	backendToken *secret // nil: none
	oauth        *issuer // nil: none
	log          *slog.Logger
	audit        *slog.Logger // of decisions, whatever logLevel is
	literal      bool         // a secret stands in the configuration
	keep         uint64       // nanoseconds for which table is good
	hub          bool
	foreign      bool // the backend is not ours: it is not told who calls

	table    atomic.Value    // *table
	inner    map[string]bool // further origins by which the backend may name itself
	passOn   map[string]bool // requestHeaders
	passBack map[string]bool // responseHeaders

	mu      sync.Mutex      // guards told and trouble, and that the files are read once
	told    map[string]bool // headers of which a line was written
	trouble string          // what was wrong with them
}

// token is one client token of the configuration.
type token struct {
	who    *principal
	where  string // for messages
	secret *secret
	until  int64 // nanoseconds at which it expires
}

// principal is who calls.
type principal struct {
	id     string   // token:NAME, oauth:CLAIM or oauth:CLAIM#GRANT
	header []string // X-Sallyport-Principal
	grants *grants
	egress []string // X-Sallyport-Egress; nil where it is absent
	grant  string   // of OAuth: what can be revoked
	until  int64    // nanoseconds at which the token expires
	limits limits
	usage  *usage
}

// allowed is the verdict of what is forwarded. The other verdicts name the
// refusal.
const allowed = "allowed"

// call is one request on its way through the refusals.
type call struct {
	e       *edge
	rw      http.ResponseWriter
	r       *http.Request
	start   time.Time
	now     int64  // start, in nanoseconds
	id      string // X-Sallyport-Request
	method  string // of HTTP
	secrets *table
	who     *principal // nil until authenticated
	usage   *usage     // what finish gives back
	kind    int        // what it is counted as
	server  string     // of a hub: servers/NAME, or hub for its aggregate
	message *message   // noMessage until a body is read
	verdict string
	status  int
	path    string // of the request, escaped, as the client sent it

	reserved int64 // bytes of the budget of bodies
}

// New builds the middleware. It reports every mistake of the configuration in
// one error, and a panic as an error too: it would freeze Traefik's dynamic
// configuration indefinitely.
func New(_ context.Context, next http.Handler, cfg *Config, name string) (h http.Handler, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("sallyport %s: bug: %v", name, v)
		}
	}()
	if cfg == nil || next == nil {
		return nil, errors.New("sallyport " + name + ": there is no configuration or no next handler")
	}
	m := &mistakes{}
	e := compile(cfg, name, m)
	if len(m.list) > 0 {
		return nil, fmt.Errorf("sallyport %s: %s", name, strings.Join(m.list, "; "))
	}
	e.next = next
	if e.literal {
		e.log.Warn("a literal secret stands in the configuration, where Traefik's API and debug log show it: use " +
			"sha256, valueFile, backendTokenFile")
	}
	return e, nil
}

// ServeHTTP is an ordered list of refusals with the forward at the bottom. Each
// condition tests the common case inline and calls a function only for the rest:
// the interpreter pays for each call, and for each expression of a function that
// is called, evaluated or not.
func (e *edge) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	start := time.Now()
	now := start.UnixNano()
	h := r.Header
	form := forms[r.Method]
	c := &call{e: e, rw: rw, r: r, start: start, now: now, id: thisRun +
		strconv.FormatInt(atomic.AddInt64(&requests, 1), 36), method: r.Method, message: noMessage, verdict: allowed}
	if e.cfg.AuditLog {
		defer func() { audit(c) }() // since a client that goes away unwinds the stack from next
	}
	plain := r.RequestURI == r.URL.Path && r.URL.Opaque == "" && e.alike.MatchString(r.RequestURI)
	odd := (form != withBody && (form == 0 || r.ContentLength != 0)) || h["Upgrade"] != nil
	if (!plain && !checkPath(c)) || (odd && !refuseForm(c)) {
		return
	}
	if o := h["Origin"]; o != nil && (len(o) != 1 || !e.origins[o[0]]) &&
		!refuse(c, http.StatusForbidden, "origin", "this Origin is not in allowedOrigins") {
		return
	}
	t := e.table.Load().(*table)
	if uint64(now-t.read) > e.keep { // also where the clock was set back
		t = refresh(e)
	}
	c.secrets = t
	i := -1
	if v := h["Authorization"]; len(v) == 1 && len(v[0]) > 7 && v[0][:7] == "Bearer " {
		i = match(t.sums, v[0][7:])
	}
	if i >= 0 && now < e.tokens[i].until {
		c.who = e.tokens[i].who
	} else if !authenticateOther(c) {
		return
	}
	who := c.who
	u := who.usage
	usageMu.Lock()
	if form != opensStream && u.full <= now && u.open[calls].Load() < who.limits.open[calls] {
		u.full = now + who.limits.each
		u.open[calls].Add(1)
		c.usage = u
	}
	usageMu.Unlock()
	if c.usage == nil && !admit(c) {
		return
	}
	place := u.open[c.kind]
	defer place.Add(-1) // compiled code: a deferred function would cost a tenth of all this
	large := form == withBody && (r.ContentLength < 0 || r.ContentLength > smallBody)
	if large {
		defer func() { giveMoreBack(c) }()
	}
	if (form == withBody && !checkBody(c)) ||
		((form == withBody || e.hub) && !who.grants.free[c.message.tool] && !checkGrant(c)) {
		return
	}
	if c.kind == streams && form == withBody && !large {
		defer func() { giveMoreBack(c) }()
	}
	forward(c, plain)
}

// refuse answers with the reason and ends the call.
func refuse(c *call, status int, verdict, text string) bool {
	return answer(c, status, verdict, "text/plain; charset=utf-8", []byte(text+"\n"))
}

// answer ends the call with a body of the edge's own.
func answer(c *call, status int, verdict, kind string, body []byte) bool {
	c.verdict = verdict
	c.status = status
	counters.Add(verdict, 1)
	h := c.rw.Header()
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	c.rw.WriteHeader(status)
	_, _ = c.rw.Write(body)
	return false
}

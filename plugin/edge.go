package plugin

import (
	"bytes"
	"context"
	"crypto/sha256"
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
	calls  *slog.Logger // of plain calls; nil for OAuth
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
	held     int64 // bytes of heldTogether

	head  bytes.Buffer // headers that the refusals look at, and all that pass by a look only
	sum   [32]byte     // SHA-256 of head
	known bool         // by sum
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

// ServeHTTP is an ordered list of refusals with the forward at the bottom. The
// interpreter pays for each call, and for each expression of a function that is
// called, evaluated or not: so a request whose headers have passed all refusals
// before is recognized by them, and the list is a function of its own.
func (e *edge) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	start := time.Now()
	now := start.UnixNano()
	c := &call{e: e, rw: rw, r: r, start: start, now: now, id: thisRun +
		strconv.FormatInt(atomic.AddInt64(&requests, 1), 36), method: r.Method, message: noMessage, verdict: allowed}
	if e.cfg.AuditLog {
		defer c.audit() // since a client that goes away unwinds the stack from next
	}
	if len(r.Header) > maxHeaders {
		refuse(c, http.StatusRequestHeaderFieldsTooLarge, "headers", "the request has more than 256 headers")
		return
	}
	plain := r.RequestURI == r.URL.Path && r.URL.Opaque == "" && e.alike.MatchString(r.RequestURI)
	t := e.table.Load().(*table)
	c.secrets = t
	n := r.ContentLength
	_ = r.Header.WriteSubset(&c.head, ordinary) // compiled code
	c.sum = sha256.Sum256(c.head.Bytes())
	usageMu.Lock()
	seen := t.posts
	if n == 0 {
		seen = t.deletes
	}
	if k := seen[c.sum]; k != nil && plain && k.method == c.method && n >= 0 && n <= smallBody &&
		now < k.who.until && uint64(now-t.read) <= e.keep { // also where the clock was set back
		u := k.who.usage
		if u.full-now <= k.who.limits.room && u.open[calls].Load() < k.who.limits.open[calls] {
			if u.full < now {
				u.full = now
			}
			u.full += k.who.limits.each
			u.open[calls].Add(1)
			c.usage = u
			c.who = k.who
			c.known = true
		}
	}
	usageMu.Unlock()
	if !c.known && !admitOther(c, plain) {
		return
	}
	place := c.usage.open[c.kind]
	defer place.Add(-1) // compiled code: a deferred function would cost a tenth of all this
	large := n < 0 || n > smallBody
	if large {
		defer c.giveMoreBack()
	}
	post := c.method == "POST"
	if (post && !checkBody(c)) || ((post || e.hub) && !c.who.grants.free[c.message.tool] && !checkGrant(c)) {
		return
	}
	if c.kind == streams && post && !large {
		defer c.giveMoreBack()
	}
	if e.cfg.FilterTools {
		defer c.hold(0)
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

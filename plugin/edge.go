package plugin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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
	prefix       string // "" is the root
	backendPath  string // what prefix is mapped to
	origins      map[string]bool
	tokens       []*token
	backendToken *secret // nil: none
	oauth        *issuer // nil: none
	level        int
	literal      bool // a secret stands in the configuration
	hasFiles     bool

	table   atomic.Value // *table
	mu      sync.Mutex   // guards what follows
	loaded  time.Time    // when the files were read
	trouble string       // what was wrong with them
}

// token is one client token of the configuration.
type token struct {
	who     *principal
	where   string // for messages
	secret  *secret
	expires *time.Time // nil: never
}

// principal is who calls.
type principal struct {
	id     string   // token:NAME or oauth:CLAIM
	header []string // X-Sallyport-Principal
	grants *grants
	limits limits
	usage  *usage // nil: to be looked up
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
	method  string // of HTTP
	secrets *table
	who     *principal // nil until authenticated
	usage   *usage     // what finish gives back
	kind    int        // what it is counted as
	server  string     // of a hub: servers/NAME, or hub for its aggregate
	message *message   // noMessage until a body is read
	verdict string
	status  int
}

// New builds the middleware. It reports every mistake of the configuration in
// one error, and a panic as an error too: it would freeze Traefik's dynamic
// configuration for ever.
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
		logLine(e, "warn", "a literal secret stands in the configuration, where Traefik's API and debug log show it: use sha256, valueFile, backendTokenFile")
	}
	return e, nil
}

// ServeHTTP is an ordered list of refusals with the forward at the bottom.
func (e *edge) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	c := &call{e: e, rw: rw, r: r, start: time.Now(), method: r.Method, message: noMessage, verdict: allowed}
	// Deferred, since a client that goes away unwinds the stack from next.
	defer func() { finish(c) }()
	if checkPath(c) && (r.Header["Origin"] == nil || checkOrigin(c)) && authenticate(c) && admit(c) &&
		(c.method != "POST" || checkBody(c)) && checkGrant(c) {
		forward(c)
	}
}

func finish(c *call) {
	if c.usage != nil {
		leave(c)
	}
	counters.Add(c.verdict, 1)
	if c.e.cfg.AuditLog {
		auditLine(c)
	}
}

// refuse answers in words and ends the call.
func refuse(c *call, status int, verdict, text string) bool {
	return answer(c, status, verdict, "text/plain; charset=utf-8", []byte(text+"\n"))
}

// answer ends the call with a body of the edge's own.
func answer(c *call, status int, verdict, kind string, body []byte) bool {
	c.verdict = verdict
	c.status = status
	h := c.rw.Header()
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	c.rw.WriteHeader(status)
	_, _ = c.rw.Write(body)
	return false
}

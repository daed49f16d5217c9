package doctor

import (
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/sallyport-dev/sallyport/internal/config"
	"github.com/sallyport-dev/sallyport/owner/client"
)

// walk is one run of doctor.
type walk struct {
	ctx     context.Context
	opt     options
	base    *url.URL // scheme, host and prefix, no slash at the end
	backend *url.URL // where sandboxd itself answers, without a path
	http    *http.Client
	file    string // the token's
	token   string
	lines   []Line
	skipped []string
	say     func(Line) // prints a line when it is known; nil waits for the end
}

const (
	runAddress = "http://127.0.0.1:18080" // make run, and the backend of make up
	upAddress  = "https://127.0.0.1:8443" // make up
	inAddress  = "http://127.0.0.1:8000"  // inside the container
	prefix     = "/mcp-sandbox"           // the default of pathPrefix and MCP_BASE_PATH
	clientFile = ".sallyport/edge/client-token"
)

func newWalk(ctx context.Context, opt options) *walk {
	w := &walk{ctx: ctx, opt: opt, base: opt.url, file: clientFile}
	backend := runAddress
	if opt.inside {
		backend, w.file = inAddress, os.Getenv("MCP_AUTH_TOKEN_FILE")
	}
	if u := client.Served(); u != nil && !opt.inside && opt.url == nil {
		w.base, backend = u, (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
	}
	w.backend, _ = url.Parse(cmp.Or(opt.backend, backend)) // parse has tried it
	w.file = cmp.Or(opt.tokenFile, w.file)
	if w.base == nil {
		w.base = w.nearest()
	}
	w.http = &http.Client{
		Transport:     client.Transport(w.base, opt.insecure),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return w
}

// nearest picks what this machine serves: the address where the plugin answers.
// No token is sent to find out.
func (w *walk) nearest() *url.URL {
	first := &url.URL{Scheme: w.backend.Scheme, Host: w.backend.Host, Path: prefix}
	if w.opt.inside {
		return first
	}
	second, _ := url.Parse(upAddress + prefix)
	for _, u := range []*url.URL{first, second} {
		probe := &walk{ctx: w.ctx, opt: w.opt, base: u, http: &http.Client{Transport: client.Transport(u, true)}}
		if probe.edgeAnswers() {
			return u
		}
	}
	if c, err := net.DialTimeout("tcp", second.Host, time.Second); err == nil {
		c.Close()
		return second
	}
	return first
}

func (w *walk) run() {
	w.machine()
	w.records()
	w.ownerSockets()
	w.egress()
	w.login()
	w.tokenFile()
	w.containers()
	w.health()
	if !w.edge() {
		w.unseen("stream", "the edge has to answer first")
		return
	}
	w.metadata()
	switch {
	case w.token == "":
		w.unseen("stream", "no token")
	case w.stream():
		w.talk()
	}
	w.traefik()
	w.funnel()
	switch {
	case w.opt.idle == 0:
		w.unseen("idle", "-idle 6m waits on a quiet stream")
	case w.token != "":
		w.quiet()
	}
}

// tokenFile reads the token, after a look at who else can.
func (w *walk) tokenFile() {
	if os.Getenv("MCP_AUTH_TOKEN") != "" {
		w.found("token", "token-in-environment", "MCP_AUTH_TOKEN is set here")
	}
	info, err := os.Stat(w.file)
	if err == nil {
		w.token, err = config.ReadToken(w.file)
	}
	switch {
	case err != nil:
		w.found("token", "token-missing", "%v (looked for %s)", err, client.Here(w.file))
	case info.Mode().Perm()&0o077 != 0:
		w.found("token", "token-readable", "%s has mode %04o", w.file, info.Mode().Perm())
	default:
		w.ok("token", "%s, mode %04o, %d characters", w.file, info.Mode().Perm(), len(w.token))
	}
}

// reply is the answer to one request, with the start of its body.
type reply struct {
	status int
	header http.Header
	body   string
	took   time.Duration
}

// ask sends one request without following redirects. The token goes along only
// when asked for, and only to the origin of base.
func (w *walk) ask(method string, u *url.URL, auth bool) (reply, error) {
	ctx, cancel := context.WithTimeout(w.ctx, w.opt.wait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return reply{}, err
	}
	if u.Path == w.base.Path+"/sse" {
		req.Header.Set("Accept", "text/event-stream")
	}
	start := time.Now()
	res, err := w.client(auth).Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	r := reply{status: res.StatusCode, header: res.Header, took: since(start)}
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") { // which would not end
		raw, _ := io.ReadAll(io.LimitReader(res.Body, 512))
		r.body = string(raw)
	}
	return r, nil
}

// client sends the token along only when asked for.
func (w *walk) client(auth bool) *http.Client {
	if !auth {
		return w.http
	}
	b := client.Bearer{Base: w.base, Token: w.token, Next: w.http.Transport}
	if w.opt.inside { // the backend's token makes doctor the edge
		b.Header = map[string]string{"X-Sallyport-Principal": "token:doctor", "X-Sallyport-Tools": "*"}
	}
	return &http.Client{Transport: b, CheckRedirect: w.http.CheckRedirect}
}

func since(start time.Time) time.Duration { return time.Since(start).Round(100 * time.Microsecond) }

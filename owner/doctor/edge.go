package doctor

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/sallyport-dev/sallyport/owner/client"
)

// health asks sandboxd itself, past Traefik, and looks whether the network can
// do the same.
func (w *walk) health() {
	const boundary = "backend"
	if w.opt.backend == "" && !w.opt.inside && !client.Loopback(w.base) {
		w.unseen(boundary, "is it on this machine? name it with -backend")
		return
	}
	r, err := w.ask("GET", w.backend.JoinPath("/healthz"), false)
	switch {
	case dropped(err):
		// Docker's proxy takes the connection before it knows whether anyone
		// listens inside, and drops it when not.
		w.found(boundary, "backend-loopback", "GET %s/healthz: the connection opens and is dropped at once", w.backend)
	case err != nil:
		w.found(boundary, "backend-down", "GET %s/healthz: %v", w.backend, reason(err))
	case r.status != 200 || strings.TrimSpace(r.body) != "ok":
		w.found(boundary, "backend-foreign", "GET %s/healthz: %d %q", w.backend, r.status, r.body)
	default:
		w.ok(boundary, "GET %s/healthz: 200, %s", w.backend, r.took)
		w.exposed()
	}
}

// dropped says whether a connection opened and ended without an answer. net/http has
// an error of its own, without a name, for one that ended before it wrote.
func dropped(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) ||
		err != nil && strings.Contains(err.Error(), "server closed idle connection")
}

// exposed tries the backend's port on the machine's other addresses.
func (w *walk) exposed() {
	if !client.Loopback(w.backend) || w.opt.inside {
		return
	}
	tried := 0
	for _, a := range addresses() {
		host := net.JoinHostPort(a.String(), w.backend.Port())
		tried++
		c, err := net.DialTimeout("tcp", host, 2*time.Second)
		if err != nil {
			continue
		}
		c.Close()
		r, err := w.ask("GET", &url.URL{Scheme: "http", Host: host, Path: "/healthz"}, false)
		if err == nil && r.status == 200 {
			w.found("loopback", "backend-exposed", "GET http://%s/healthz: 200", host)
			return
		}
	}
	w.ok("loopback", "port %s is closed on this machine's %d other addresses", w.backend.Port(), tried)
}

// edge asks without a token: the answer must be 401, and from the plugin.
func (w *walk) edge() bool {
	sse := w.base.JoinPath("sse")
	r, err := w.ask("GET", sse, false)
	if err != nil {
		w.noAnswer("no token", sse, err)
		return false
	}
	proof := fmt.Sprintf("GET %s: %d, %s", sse, r.status, r.took)
	w.clock(r)
	switch {
	case r.status == 401 && !strings.HasPrefix(r.header.Get("Www-Authenticate"), "Bearer"):
		w.found("no token", "no-challenge", "%s, WWW-Authenticate: %q", proof, r.header.Get("Www-Authenticate"))
	case r.status == 401:
		w.ok("no token", "%s, WWW-Authenticate: Bearer", proof)
	case r.status == 200:
		w.found("no token", "open", "%s", proof)
		return true
	default:
		w.found("no token", w.unexpected(r), "%s %q%s", proof, r.body, location(r))
		return false
	}
	if w.opt.inside {
		return true
	}
	if w.edgeAnswers() {
		w.ok("plugin", "PUT %s: 405 before authentication, as the plugin does", sse)
	} else {
		w.found("plugin", "past-the-plugin", "PUT %s: not 405, so sandboxd itself answers", sse)
	}
	return true
}

// edgeAnswers reports whether the plugin stands in front: it refuses a method
// before it asks for a token, sandboxd the other way round.
func (w *walk) edgeAnswers() bool {
	r, err := w.ask("PUT", w.base.JoinPath("sse"), false)
	return err == nil && r.status == http.StatusMethodNotAllowed && strings.Contains(r.header.Get("Allow"), "DELETE")
}

// unexpected names what a status other than 401 means.
func (w *walk) unexpected(r reply) string {
	switch {
	case r.status >= 300 && r.status < 400:
		return "redirect"
	case r.status == 404 && w.doubled():
		return "prefix-stripped"
	case r.status == 503:
		return "router-dropped"
	case r.status == 421:
		return "host-refused"
	case r.status == 502 || r.status == 504:
		return "backend-unreachable"
	case r.status == 429:
		return "rate-limited"
	case r.status == 403:
		return "refused"
	}
	return "not-routed"
}

// doubled reports whether the prefix written twice arrives where once should:
// then something on the way takes one away.
func (w *walk) doubled() bool {
	twice := *w.base
	twice.Path += w.base.Path + "/sse"
	r, err := w.ask("GET", &twice, false)
	return err == nil && r.status == 401
}

func (w *walk) noAnswer(boundary string, u *url.URL, err error) {
	name := "unreachable"
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		name = "tls-untrusted"
	}
	w.found(boundary, name, "GET %s: %v", u, reason(err))
}

// clock compares the Date header, whose second ends up to a second later.
func (w *walk) clock(r reply) {
	date, err := http.ParseTime(r.header.Get("Date"))
	if err != nil {
		return
	}
	if skew := time.Since(date).Round(time.Second); skew.Abs() > time.Minute {
		w.found("clock", "clock-skew", "Date: %s is %s from this clock", r.header.Get("Date"), skew)
		return
	}
	w.ok("clock", "Date: %s", r.header.Get("Date"))
}

// metadata looks for OAuth documents. In OAuth mode the challenge points at
// one; otherwise there must be none, and anything but 404 confuses clients.
func (w *walk) metadata() {
	if w.opt.inside {
		return
	}
	if r, err := w.ask("GET", w.base.JoinPath("sse"), false); err == nil &&
		strings.Contains(r.header.Get("Www-Authenticate"), "resource_metadata=") {
		w.ok("oauth", "the challenge names OAuth metadata: this router is in OAuth mode")
		return
	}
	root := &url.URL{Scheme: w.base.Scheme, Host: w.base.Host}
	for _, p := range []string{
		"/.well-known/oauth-protected-resource" + w.base.Path + "/mcp",
		"/.well-known/oauth-protected-resource" + w.base.Path + "/sse",
		"/.well-known/oauth-protected-resource",
		"/.well-known/oauth-authorization-server",
		"/.well-known/openid-configuration",
	} {
		r, err := w.ask("GET", root.JoinPath(p), false)
		if err != nil {
			w.noAnswer("oauth", root.JoinPath(p), err)
			return
		}
		if r.status != 404 {
			w.found("oauth", "oauth-metadata", "GET %s: %d, not 404", p, r.status)
			return
		}
	}
	w.ok("oauth", "no OAuth metadata (404), so clients use the token")
}

func location(r reply) string {
	if to := r.header.Get("Location"); to != "" {
		return " Location: " + to
	}
	return ""
}

// reason drops the repetition of method and URL from a client's error.
func reason(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// Package web is login's HTTP side: OAuth's endpoints for clients, pages for the owner.
package web

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sallyport-dev/sallyport/login/client"
	"github.com/sallyport-dev/sallyport/login/issue"
	"github.com/sallyport-dev/sallyport/login/owner"
	"github.com/sallyport-dev/sallyport/login/store"
)

// Server answers every request.
type Server struct {
	*issue.Issuer
	byHand   map[string]*store.Client
	passkeys *owner.Passkeys
	sessions owner.Sessions
	throttle owner.Throttle
	code     owner.Code
	secret   []byte // of cookies and passkey states
	secure   bool
	// host is the issuer's, which alone has the owner's pages, without the port that is
	// usual: browsers leave that out, and some proxies write it.
	host, usual string
	limit       limiter
	log         *slog.Logger
	cross       *http.CrossOriginProtection
	routes      map[string]route
}

// route is what answers one path. Clients' endpoints are open to every origin, since no
// cookie counts there; forms of other sites are refused on pages.
type route struct {
	method string
	open   bool
	serve  http.HandlerFunc
}

// New makes the server of an issuer whose keys are there.
func New(i *issue.Issuer, log *slog.Logger) (*Server, error) {
	s := &Server{Issuer: i, log: log, cross: http.NewCrossOriginProtection(),
		secure: strings.HasPrefix(i.Config.Issuer, "https:")}
	s.throttle.Now = i.Now
	i.Store.View(func(st *store.State) { s.secret = append([]byte("web "), st.Secret...) })
	u, wrong := url.Parse(i.Config.Issuer)
	if wrong != nil {
		return nil, wrong
	}
	s.usual = map[bool]string{true: ":443", false: ":80"}[s.secure]
	s.host = strings.TrimSuffix(u.Host, s.usual)
	var err error
	s.byHand, err = client.ByHand(i.Config)
	s.passkeys, wrong = owner.NewPasskeys(i.Config.Issuer, s.secret)
	base, metadata := i.Config.Base, document(s.metadata)
	s.routes = map[string]route{
		"/.well-known/oauth-authorization-server" + base: metadata,
		base + "/.well-known/oauth-authorization-server": metadata,
		"/.well-known/openid-configuration" + base:       metadata,
		base + "/.well-known/openid-configuration":       metadata,

		"/healthz":           document(func() any { return "ok" }),
		base + "/jwks.json":  document(func() any { return s.PublicKeys() }),
		base + "/token":      {http.MethodPost, true, s.token},
		base + "/register":   {http.MethodPost, true, s.register},
		base + "/revoke":     {http.MethodPost, true, s.revoke},
		base:                 {http.MethodGet, false, s.home},
		base + "/authorize":  {http.MethodGet, false, s.authorize},
		base + "/consent":    {http.MethodPost, false, s.consent},
		base + "/sign-in":    {http.MethodPost, false, s.signIn},
		base + "/setup":      {http.MethodPost, false, s.setup},
		base + "/change":     {http.MethodPost, false, s.change},
		base + "/style.css":  {http.MethodGet, false, asset},
		base + "/passkey.js": {http.MethodGet, false, asset},
	}
	return s, errors.Join(err, wrong)
}

// document is what everybody may read.
func document(body func() any) route {
	return route{http.MethodGet, true, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, body()) }}
}

// How long a request's body may take to come, and its answer to be taken.
const (
	readWait  = 30 * time.Second
	writeWait = time.Minute
)

// ServeHTTP finds what answers. A slash at the end is served, never redirected.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(readWait)) // a test's recorder has none
	_ = rc.SetWriteDeadline(time.Now().Add(writeWait))
	to, ok := s.routes[strings.TrimSuffix(r.URL.Path, "/")]
	if to.open {
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, MCP-Protocol-Version")
	}
	switch {
	case !ok:
		fail(w, http.StatusNotFound, "not_found", "nothing is here")
	case to.open && r.Method == http.MethodOptions:
		w.WriteHeader(http.StatusNoContent)
	case r.Method != to.method && (r.Method != http.MethodHead || to.method != http.MethodGet):
		h.Set("Allow", to.method)
		fail(w, http.StatusMethodNotAllowed, "invalid_request", "use "+to.method)
	case !to.open && !strings.EqualFold(strings.TrimSuffix(r.Host, s.usual), s.host):
		fail(w, http.StatusMisdirectedRequest, "invalid_request", "the owner's pages are at "+s.Config.Issuer+
			" only: open that, and let proxies pass on the Host header")
	case !to.open && (s.cross.Check(r) != nil || r.ParseForm() != nil):
		fail(w, http.StatusForbidden, "access_denied", "this form was sent by another site, or is not readable")
	default:
		to.serve(w, r)
	}
}

// metadata answers RFC 8414, and the same at OpenID Connect's places, where some
// clients look first. The last two members are there only since OpenID's readers want them.
func (s *Server) metadata() any {
	at, methods := s.Config.Issuer, []string{client.None, client.PrivateKeyJWT}
	return map[string]any{
		"issuer": at, "authorization_endpoint": at + "/authorize", "token_endpoint": at + "/token",
		"registration_endpoint": at + "/register", "revocation_endpoint": at + "/revoke", "jwks_uri": at + "/jwks.json",
		"scopes_supported":         []string{"mcp", "offline_access"},
		"response_types_supported": []string{"code"}, "response_modes_supported": []string{"query"},
		"grant_types_supported":                                 []string{"authorization_code", "refresh_token"},
		"code_challenge_methods_supported":                      []string{"S256"},
		"token_endpoint_auth_methods_supported":                 methods,
		"token_endpoint_auth_signing_alg_values_supported":      client.Algorithms,
		"revocation_endpoint_auth_methods_supported":            methods,
		"revocation_endpoint_auth_signing_alg_values_supported": client.Algorithms,
		"authorization_response_iss_parameter_supported":        true, "client_id_metadata_document_supported": true,
		"subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"ES256"},
	}
}

// fail answers with OAuth's JSON error (RFC 6749, section 5.2).
func fail(w http.ResponseWriter, status int, code, text string) {
	answer(w, status, map[string]string{"error": code, "error_description": text})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that is gone
}

// failed answers with an error of OAuth's. Others are logged, not shown.
func (s *Server) failed(w http.ResponseWriter, err error) {
	var known *client.Error
	switch {
	case !errors.As(err, &known):
		s.log.Error("a request failed", "error", err.Error())
		w.Header().Set("Retry-After", "5")
		fail(w, http.StatusServiceUnavailable, "temporarily_unavailable", "login cannot keep its state now: try again")
	case known.Code == "invalid_client":
		fail(w, http.StatusUnauthorized, known.Code, known.Text)
	default:
		fail(w, http.StatusBadRequest, known.Code, known.Text)
	}
}

// caller is the client's address: what Traefik, the only one in front, says last.
func caller(r *http.Request) string {
	host, _, _ := net.SplitHostPort(r.RemoteAddr) // of net/http
	list := strings.Split(strings.Join(append([]string{host}, r.Header.Values("X-Forwarded-For")...), ","), ",")
	return strings.TrimSpace(list[len(list)-1])
}

// twice names a parameter that has several values (RFC 6749, section 3.1). Equal
// resources are one.
func twice(values url.Values) string {
	for name, all := range values {
		for _, v := range all[1:] {
			if name != "resource" || v != all[0] {
				return name
			}
		}
	}
	return ""
}

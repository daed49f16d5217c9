package serve

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/internal/httpd"
	"github.com/sallyport-dev/sallyport/internal/identity"
	"github.com/sallyport-dev/sallyport/internal/session"
)

// modern is the first protocol version without sessions.
const modern = "2026-07-28"

const (
	versionHeader = "Mcp-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"
	nameHeader    = "Mcp-Name"
)

// streamable serves streamable HTTP in both its forms on one path: with
// sessions up to 2025-11-25, and stateless from 2026-07-28 on. The SDK's
// handler is either the one or the other, so the version header chooses.
func (s *Server) streamable() http.Handler {
	server := func(*http.Request) *mcp.Server { return s.mcp }
	// The guard before us does what localhost protection would, without
	// refusing the public Host that a proxy passes on.
	sessions := withTokenInfo(mcp.NewStreamableHTTPHandler(server, &mcp.StreamableHTTPOptions{
		DisableLocalhostProtection: true,
		MaxRequestBodyBytes:        httpd.MaxBody,
	}))
	stateless := withTokenInfo(mcp.NewStreamableHTTPHandler(server, &mcp.StreamableHTTPOptions{
		Stateless:                    true,
		PropagateRequestCancellation: true,
		DisableLocalhostProtection:   true,
		MaxRequestBodyBytes:          httpd.MaxBody,
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		identity, _ := identity.From(r.Context())
		m := &message{identity: identity, size: r.ContentLength, gone: r.Context(), stream: httpd.StreamFrom(r.Context())}
		if r.Header.Get(versionHeader) >= modern {
			s.serveStateless(w, r, m, stateless)
			return
		}
		s.serveSession(w, r, m, sessions)
	})
}

// serveStateless serves a request that is a session of its own, so it takes a
// session's place as long as it runs.
func (s *Server) serveStateless(w http.ResponseWriter, r *http.Request, m *message, next http.Handler) {
	place, err := s.sessions.Reserve(m.identity.Principal)
	if err != nil {
		session.Refuse(w, err)
		return
	}
	defer place.Leave()
	m.stateless = true
	decodeName(r.Header)
	next.ServeHTTP(w, r.WithContext(withMessage(r.Context(), m)))
}

// serveSession serves a request in a session, or one that may open one.
func (s *Server) serveSession(w http.ResponseWriter, r *http.Request, m *message, next http.Handler) {
	m.session = r.Header.Get(sessionHeader)
	if m.session == "" && r.Method == http.MethodGet {
		// Clients that try HTTP+SSE first fall back on 405.
		httpd.RefuseMethod(w, "POST")
		return
	}
	var place *session.Session
	var err error
	switch {
	case m.session != "":
		place, err = s.sessions.Enter(m.session, m.identity.Principal)
	case r.Method == http.MethodPost:
		place, err = s.sessions.Reserve(m.identity.Principal)
		m.reserved = place
	}
	if err != nil {
		session.Refuse(w, err)
		return
	}
	if place != nil {
		defer place.Leave()
	}
	next.ServeHTTP(w, r.WithContext(withMessage(r.Context(), m)))
}

// withTokenInfo hands the message in the request's context to the SDK. The
// bearer token was checked long before: this is only the SDK's way in.
func withTokenInfo(next http.Handler) http.Handler {
	verify := func(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
		return messageFrom(ctx).tokenInfo(), nil
	}
	return auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(next)
}

// decodeName decodes an Mcp-Name of the form =?base64?...?=, as a server MUST
// (2026-07-28, streamable HTTP, Value Encoding); the SDK compares it as it is.
func decodeName(h http.Header) {
	encoded, ok := strings.CutPrefix(h.Get(nameHeader), "=?base64?")
	if !ok || !strings.HasSuffix(encoded, "?=") {
		return
	}
	if name, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(encoded, "?=")); err == nil {
		h.Set(nameHeader, string(name))
	}
}

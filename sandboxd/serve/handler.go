package serve

import (
	"context"
	"net/http"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/httpd"
	"github.com/sallyport-dev/sallyport/internal/identity"
)

// Handler serves /healthz without a token, and below the base path, with one,
// /sse and /mcp. A request meets the refusals in the order written here.
func (s *Server) Handler() http.Handler {
	h := s.routes()
	h = httpd.Bodies(h)
	h = identity.Edge(s.set.RequireEdge, h)
	h = httpd.Guard(s.set.Hosts, s.set.Origins, h)
	h = httpd.Bearer(s.set.Token, h)
	h = s.below(h)
	h = s.lifetime(h)
	return httpd.Streams(s.log, h)
}

// below answers the health check, and 404 to what this server does not serve.
// Clients look for OAuth metadata at well-known paths and take anything but
// 404 there for a login; this is no such server.
func (s *Server) below(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/healthz":
			health(w, r)
		case !strings.HasPrefix(r.URL.Path, s.set.BasePath+"/") && r.URL.Path != s.set.BasePath,
			strings.Contains(r.URL.Path, "/.well-known/"):
			http.NotFound(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func health(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		httpd.RefuseMethod(w, "GET, HEAD")
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n"))
}

// routes serves each path with and without a trailing slash: a redirect would
// turn a POST into a GET and lose the token.
func (s *Server) routes() http.Handler {
	streamable := s.streamable()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, s.set.BasePath), "/") {
		case "/sse":
			s.serveSSE(w, r)
		case "/mcp":
			streamable.ServeHTTP(w, r)
		default:
			http.NotFound(w, r)
		}
	})
}

// lifetime ends what is open when the server ends, and says so on streams.
func (s *Server) lifetime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.stopping.Err() != nil {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "the server is shutting down", http.StatusServiceUnavailable)
			return
		}
		s.requests.Add(1)
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		stop := context.AfterFunc(s.ended, func() {
			httpd.StreamFrom(ctx).Comment("the server is shutting down")
			cancel()
		})
		defer stop()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

package serve

import (
	"net/http"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/httpd"
	"github.com/sallyport-dev/sallyport/internal/identity"
	idle "github.com/sallyport-dev/sallyport/internal/session"
)

// Handler serves /healthz without a token, and below the base path, with one,
// /sse and /mcp. A request meets the steps in the order in which they stand
// here.
func (s *Server) Handler() http.Handler {
	return httpd.Chain(http.HandlerFunc(s.route),
		httpd.Streams(s.log),
		httpd.Lifetime(s.stopping, s.ended, idle.ErrUnknown),
		httpd.Below(s.set.BasePath),
		httpd.Bearer(s.set.Token),
		httpd.Guard(s.set.Hosts, s.set.Origins),
		identity.Edge(s.set.RequireEdge),
		httpd.Bodies,
	)
}

// route serves each path with and without a trailing slash: a redirect would
// turn a POST into a GET and lose the token.
func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	path := strings.TrimSuffix(r.URL.Path, "/")
	switch strings.TrimPrefix(path, s.set.BasePath) {
	case "/sse":
		s.front.ServeSSE(w, r, path, target{s})
	case "/mcp":
		s.front.ServeMCP(w, r, path, target{s})
	case "":
		http.Error(w, "there is no MCP server at this path: add /mcp or /sse", http.StatusNotFound)
	default:
		http.NotFound(w, r)
	}
}

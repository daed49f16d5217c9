package service

import (
	"net/http"
	"strings"

	"github.com/sallyport-dev/sallyport/hub/lifecycle"
	"github.com/sallyport-dev/sallyport/internal/httpd"
	"github.com/sallyport-dev/sallyport/internal/identity"
	"github.com/sallyport-dev/sallyport/internal/mcphttp"
	"github.com/sallyport-dev/sallyport/internal/session"
)

// Handler serves /healthz without a token, and below the base path, with one,
// the servers, the aggregate and the status. A request meets the steps in the
// order in which they stand here.
func (h *Hub) Handler() http.Handler {
	return httpd.Chain(http.HandlerFunc(h.route),
		httpd.Streams(h.log),
		httpd.Lifetime(h.stopping, h.ended, session.ErrUnknown),
		httpd.Below(h.set.BasePath),
		httpd.Bearer(h.set.Token),
		httpd.Guard(h.set.Hosts, h.set.Origins),
		identity.Edge(h.set.RequireEdge),
		httpd.Bodies,
	)
}

func (h *Hub) route(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	parts := strings.Split(strings.TrimPrefix(path, h.set.BasePath+"/"), "/")
	switch {
	case len(parts) == 1 && parts[0] == "status":
		h.status(w, r)
	case len(parts) == 3 && parts[0] == "servers" && (parts[2] == "mcp" || parts[2] == "sse"):
		h.serve(w, r, path, parts[1], parts[2])
	case len(parts) == 2 && parts[0] == "hub" && parts[1] == "mcp":
		identity, _ := identity.From(r.Context())
		if len(h.Visible(identity)) == 0 && !identity.All() {
			http.Error(w, "forbidden: "+identity.Principal+" has no grant for any server", http.StatusForbidden)
			return
		}
		h.front.ServeMCP(w, r, path, h.all)
	default:
		http.NotFound(w, r)
	}
}

// serve passes a request to the server that its path names. Of one that its
// sender has no part in, nothing is said and nothing is woken.
func (h *Hub) serve(w http.ResponseWriter, r *http.Request, path, name, kind string) {
	identity, _ := identity.From(r.Context())
	if !identity.Reaches(name) {
		http.Error(w, "forbidden: "+identity.Principal+" has no grant for anything of "+name, http.StatusForbidden)
		return
	}
	h.mu.Lock()
	s, broken := h.servers[name], h.broken[name]
	h.mu.Unlock()
	switch {
	case broken != nil:
		mcphttp.Refuse(w, &lifecycle.StateError{Server: name, State: "disabled", Reason: broken.Error()})
	case s == nil:
		http.Error(w, "there is no server "+name+" in mcp.json", http.StatusNotFound)
	case kind == "sse":
		h.front.ServeSSE(w, r, path, target{s})
	default:
		h.front.ServeMCP(w, r, path, target{s})
	}
}

type target struct{ *lifecycle.Server }

// Open implements mcphttp.Target.
func (t target) Open(push mcphttp.Push) mcphttp.Session { return t.Session(push) }

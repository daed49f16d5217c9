// Package identity reads from the edge's headers who calls and what they may call.
package identity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// The headers by which the edge says who calls and what they may call. They
// are believed because only the edge has the backend token.
const (
	PrincipalHeader = "X-Sallyport-Principal"
	ToolsHeader     = "X-Sallyport-Tools"
	AskHeader       = "X-Sallyport-Ask"
	RequestHeader   = "X-Sallyport-Request"
	headerPrefix    = "X-Sallyport-"
)

// Local is who calls when no edge stands before this server.
const Local = "local"

// Identity is who sent a message and what was granted to them.
type Identity struct {
	Principal string   // token:NAME, oauth:CLAIM or local
	Tools     []string // grants as written, or the single "*"
	Ask       []string // the grants that wait for the owner's approval
	Request   string   // the edge's id of the request that carried the message, for the audit; "" without one
}

type identityKey struct{}

// With returns ctx carrying id.
func With(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, id)
}

// From returns the identity that ctx carries, if it carries one.
func From(ctx context.Context) (Identity, bool) {
	id, ok := ctx.Value(identityKey{}).(Identity)
	return id, ok
}

// Edge reads the edge's headers into the request's context. Headers that are
// incomplete, doubled or malformed are 403, and so is their absence with
// require: half an identity is none.
func Edge(require bool) func(next http.Handler) http.Handler {
	return func(next http.Handler) http.Handler { return edge(require, next) }
}

func edge(require bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := Parse(r.Header, require)
		if err != nil {
			http.Error(w, "forbidden: "+err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r.WithContext(With(r.Context(), id)))
	})
}

// Parse reads the edge's headers. Without any of them the identity is
// the local one with every tool, or with require an error.
func Parse(h http.Header, require bool) (Identity, error) {
	if !hasEdgeHeader(h) {
		if require {
			return Identity{}, errors.New("this server serves only what comes through its edge (MCP_REQUIRE_EDGE)")
		}
		return Identity{Principal: Local, Tools: []string{"*"}}, nil
	}
	principal, tools, ask := h.Values(PrincipalHeader), h.Values(ToolsHeader), h.Values(AskHeader)
	if len(principal) != 1 || len(tools) != 1 || len(ask) > 1 {
		return Identity{}, fmt.Errorf("%s and %s must each be there exactly once, %s at most once", PrincipalHeader, ToolsHeader, AskHeader)
	}
	if !isPrincipal(principal[0]) {
		return Identity{}, fmt.Errorf("%s must be token:NAME or oauth:CLAIM", PrincipalHeader)
	}
	request := h.Values(RequestHeader)
	if len(request) > 1 || len(request) == 1 && !isRequestID(request[0]) {
		return Identity{}, fmt.Errorf("%s must be there at most once, with 1 to 64 letters, digits, dots or hyphens", RequestHeader)
	}
	id := Identity{Principal: principal[0], Request: strings.Join(request, "")}
	var ok, askOK bool
	if id.Tools, ok = grants(tools[0]); !ok && tools[0] != "" {
		return Identity{}, fmt.Errorf("%s is malformed", ToolsHeader)
	}
	if len(ask) == 1 {
		if id.Ask, askOK = grants(ask[0]); !askOK {
			return Identity{}, fmt.Errorf("%s is malformed", AskHeader)
		}
	}
	return id, nil
}

func hasEdgeHeader(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, headerPrefix) {
			return true
		}
	}
	return false
}

func isPrincipal(s string) bool {
	kind, name, _ := strings.Cut(s, ":")
	if kind != "token" && kind != "oauth" || name == "" || len(name) > 128 {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._@|:-", r))
	})
}

// isRequestID reports what may stand in an audit record and a log line as it is.
func isRequestID(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
	})
}

// grants splits a header's value. It is not ok when a part is empty or holds a
// character that no grant has.
func grants(value string) ([]string, bool) {
	parts := strings.Split(value, ",")
	for i, part := range parts {
		parts[i] = strings.TrimSpace(part)
		if parts[i] == "" || strings.ContainsFunc(parts[i], func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, false
		}
	}
	return parts, true
}

// Granted reports whether the tool of a server without sub-servers may be
// called: it is named, or "*" is. A grant with a slash names another kind of
// thing and grants nothing here.
func (id Identity) Granted(tool string) bool {
	return !strings.Contains(tool, "/") && (slices.Contains(id.Tools, "*") || slices.Contains(id.Tools, tool))
}

// Asks reports whether a call of tool waits for the owner's approval.
func (id Identity) Asks(tool string) bool {
	return slices.Contains(id.Ask, "*") || slices.Contains(id.Ask, tool)
}

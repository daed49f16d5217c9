// Package identity is the one way from the edge's headers to the decision: who
// calls, what they may call, what waits for the owner, and what their commands
// may connect to.
package identity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// The headers by which the edge says who calls and what they may call. They
// are believed because only the edge has the backend token.
const (
	PrincipalHeader = "X-Sallyport-Principal"
	ToolsHeader     = "X-Sallyport-Tools"
	AskHeader       = "X-Sallyport-Ask"     // at most once
	EgressHeader    = "X-Sallyport-Egress"  // at most once
	RequestHeader   = "X-Sallyport-Request" // at most once
	headerPrefix    = "X-Sallyport-"
)

// Local is who calls when no edge stands before this server.
const Local = "local"

// Identity is who sent a message and what was granted to them. Grants are as
// written at the edge: tool on a sandbox, server/tool or server/* on a hub, or
// the single "*". Names in them are percent-encoded (RFC 3986, section 2.1) where
// they have other characters than A-Z a-z 0-9 _ . and -.
type Identity struct {
	Principal string   // token:NAME, oauth:CLAIM, oauth:CLAIM#GRANT or local
	Tools     []string // what may be called
	Ask       []string // of that, what waits for the owner's approval
	Egress    []string // rules of egressrule, not yet parsed; empty: nothing
	Request   string   // the edge's id of the request; empty without an edge
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
		if r = identified(w, r, require); r != nil {
			next.ServeHTTP(w, r)
		}
	})
}

// identified is r with its identity, or nil after an answer. It is not part of the
// handler so that the stacks of idle streams stay small (httpd.Bearer).
//
//go:noinline
func identified(w http.ResponseWriter, r *http.Request, require bool) *http.Request {
	id, err := Parse(r.Header, require)
	if err != nil {
		http.Error(w, "forbidden: "+err.Error(), http.StatusForbidden)
		return nil
	}
	return r.WithContext(With(r.Context(), id))
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
	for _, name := range []string{PrincipalHeader, ToolsHeader} {
		if len(h.Values(name)) != 1 {
			return Identity{}, fmt.Errorf("%s and %s must each be there exactly once", PrincipalHeader, ToolsHeader)
		}
	}
	for _, name := range []string{AskHeader, EgressHeader, RequestHeader} {
		if len(h.Values(name)) > 1 {
			return Identity{}, fmt.Errorf("%s must be there at most once", name)
		}
	}
	id := Identity{Principal: h.Get(PrincipalHeader), Request: h.Get(RequestHeader)}
	if !principalForm.MatchString(id.Principal) {
		return Identity{}, fmt.Errorf("%s must be token:NAME, oauth:CLAIM or oauth:CLAIM#GRANT", PrincipalHeader)
	}
	if h.Values(RequestHeader) != nil && !requestForm.MatchString(id.Request) {
		return Identity{}, fmt.Errorf("%s is malformed", RequestHeader)
	}
	for name, into := range map[string]*[]string{ToolsHeader: &id.Tools, AskHeader: &id.Ask, EgressHeader: &id.Egress} {
		value, given := h.Get(name), h.Values(name) != nil
		if !given || name == ToolsHeader && value == "" { // no grant is one, too
			continue
		}
		var ok bool
		if *into, ok = list(value); !ok {
			return Identity{}, fmt.Errorf("%s is malformed", name)
		}
	}
	return id, nil
}

var (
	principalForm = regexp.MustCompile(`^(?:token|oauth):[A-Za-z0-9._@|:+-]{1,128}(?:#[A-Za-z0-9._@|:+-]{1,128})?$`)
	requestForm   = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`) // as it stands in audit records and log lines
)

func hasEdgeHeader(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, headerPrefix) {
			return true
		}
	}
	return false
}

// list splits a header's value. It is not ok when a part is empty or holds a
// character that no grant and no rule has.
func list(value string) ([]string, bool) {
	parts := strings.Split(value, ",")
	for i, part := range parts {
		parts[i] = strings.TrimSpace(part)
		if parts[i] == "" || strings.ContainsFunc(parts[i], func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, false
		}
	}
	return parts, true
}

// All reports whether everything is granted.
func (id Identity) All() bool { return slices.Contains(id.Tools, "*") }

// Granted reports whether the tool of a server without sub-servers may be
// called: it is named, or "*" is. A grant with a slash names another kind of
// thing and grants nothing here; nor does "*" a tool that has one in its name.
func (id Identity) Granted(tool string) bool {
	return covered(id.Tools, "", tool) && (!strings.Contains(tool, "/") || !id.All())
}

// Asks reports whether a call of tool waits for the owner's approval.
func (id Identity) Asks(tool string) bool { return covered(id.Ask, "", tool) }

// GrantedOn reports whether the tool of a hub's server may be called.
func (id Identity) GrantedOn(server, tool string) bool { return covered(id.Tools, server, tool) }

// AsksOn reports whether a call of a server's tool waits for the owner's approval.
func (id Identity) AsksOn(server, tool string) bool { return covered(id.Ask, server, tool) }

// GrantedWhole reports whether every tool of a hub's server is granted.
func (id Identity) GrantedWhole(server string) bool {
	return slices.ContainsFunc(id.Tools, func(grant string) bool {
		name, tool, _ := strings.Cut(grant, "/")
		return grant == "*" || tool == "*" && decode(name) == server
	})
}

// Reaches reports whether anything of a hub's server is granted.
func (id Identity) Reaches(server string) bool {
	return slices.ContainsFunc(id.Tools, func(grant string) bool {
		name, tool, _ := strings.Cut(grant, "/")
		return grant == "*" || tool != "" && decode(name) == server
	})
}

// covered reports whether a list has a grant of a tool. Compared are the bytes
// that the grant stands for.
func covered(grants []string, server, tool string) bool {
	return tool != "" && slices.ContainsFunc(grants, func(grant string) bool {
		if grant == "*" {
			return true
		}
		name, of, slash := strings.Cut(grant, "/")
		if !slash {
			return server == "" && decode(name) == tool
		}
		return server != "" && decode(name) == server && (of == "*" || decode(of) == tool)
	})
}

// decode returns "", which names nothing, for what is not percent-encoding.
func decode(name string) string {
	decoded, err := url.PathUnescape(name)
	if err != nil {
		return ""
	}
	return decoded
}

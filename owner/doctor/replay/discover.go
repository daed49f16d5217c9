package replay

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{` +
	`"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"sallyport-doctor","version":"1"}}}`

var mcpHeader = map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}

// challenged sends the first message without a token.
func (w *Walk) challenged(ctx context.Context) {
	if w.seq.Public && !public(ctx, w.URL) {
		w.stumble("not-public", "%s", w.URL)
	}
	a := w.send(ctx, "POST", w.URL.String(), []byte(initialize), mcpHeader)
	if a == nil {
		return
	}
	w.challenge = strings.Join(a.header.Values("WWW-Authenticate"), ", ")
	switch {
	case a.status >= 200 && a.status < 300:
		w.stumble("open", "%s without a token: %d", a.what, a.status)
	case a.status >= 300 && a.status < 400:
		w.stumble("redirected", "%s: %d to %s", a.what, a.status, a.header.Get("Location"))
	case a.status != 401:
		w.stumble("not-401", "%s without a token: %d %s", a.what, a.status, w.short(a))
	case !strings.HasPrefix(strings.ToLower(w.challenge), "bearer"):
		w.stumble("no-challenge", "%s: 401, WWW-Authenticate: %q", a.what, w.challenge)
	case parameter(w.challenge, "resource_metadata") == "":
		w.stumble("no-metadata-link", "%s: 401, WWW-Authenticate: %s", a.what, w.challenge)
	default:
		w.ok("%s: 401, %s", a.what, w.challenge)
	}
}

// public reports whether a URL can be reached from the Internet on port 443, as
// far as its name and addresses say.
func public(ctx context.Context, u *url.URL) bool {
	if u.Scheme != "https" || u.Port() != "" && u.Port() != "443" {
		return false
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", u.Hostname())
	return err == nil && len(addrs) > 0 && !slices.ContainsFunc(addrs, func(a netip.Addr) bool {
		a = a.Unmap()
		return a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() ||
			netip.MustParsePrefix("100.64.0.0/10").Contains(a)
	})
}

// parameter reads one quoted parameter of a challenge.
func parameter(challenge, name string) string {
	m := regexp.MustCompile(`(?i)\b` + name + `="([^"]*)"`).FindStringSubmatch(challenge)
	if m == nil {
		return ""
	}
	return m[1]
}

// resourceMetadata finds the protected resource metadata: by the challenge's link,
// at the well-known place with the path behind, or at the root. Strict clients
// compare the resource with the URL that was typed; others want it to be that URL
// or one above it.
func (w *Walk) resourceMetadata(ctx context.Context) {
	origin := w.URL.Scheme + "://" + w.URL.Host + "/.well-known/oauth-protected-resource"
	places := map[string]string{"challenge": parameter(w.challenge, "resource_metadata"),
		"path": origin + w.URL.EscapedPath(), "root": origin}
	a := w.first(ctx, w.step.Places, places, "no-resource-metadata")
	if a == nil {
		return
	}
	typed := w.URL.String()
	switch {
	case !a.document(&w.resource):
		w.stumble("not-json", "%s: %s", a.what, w.short(a))
	case w.step.Strict && w.resource.Resource != typed, !w.step.Strict && !strings.HasPrefix(typed+"/",
		strings.TrimSuffix(w.resource.Resource, "/")+"/"):
		w.stumble("resource-differs", "%s: resource is %s", a.what, differs(w.resource.Resource, typed))
	case len(w.resource.Servers) == 0:
		w.stumble("no-server", "%s: %s", a.what, w.short(a))
	default:
		w.ok("%s: resource is the URL, the issuer %s", a.what, w.resource.Servers[0])
	}
}

// first asks the places in order and returns the first good answer.
func (w *Walk) first(ctx context.Context, order []string, places map[string]string, none string) *answer {
	var asked []string
	for i, place := range order {
		if places[place] == "" || slices.Contains(asked, places[place]) {
			continue
		}
		asked = append(asked, places[place])
		a := w.send(ctx, "GET", places[place], nil, map[string]string{"Accept": "application/json",
			"MCP-Protocol-Version": "2025-06-18"})
		if a == nil {
			return nil
		}
		if a.status == 200 {
			if i > 0 && w.step.First {
				w.stumble("first-place-only", "%s: not 200", places[order[0]])
			}
			return a
		}
	}
	w.stumble(none, "asked: %s", strings.Join(asked, ", "))
	return nil
}

// server is an authorization server's metadata (RFC 8414, section 2).
type server struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Registration  string   `json:"registration_endpoint"`
	Revocation    string   `json:"revocation_endpoint"`
	Challenges    []string `json:"code_challenge_methods_supported"`
	Methods       []string `json:"token_endpoint_auth_methods_supported"`
	Scopes        []string `json:"scopes_supported"`
	Documents     bool     `json:"client_id_metadata_document_supported"`
	SendsIssuer   bool     `json:"authorization_response_iss_parameter_supported"`
}

// serverMetadata finds the issuer's metadata, in the order of the MCP
// specification or of the client.
func (w *Walk) serverMetadata(ctx context.Context) {
	issuer := w.resource.Servers[0]
	u, err := url.Parse(issuer)
	if err != nil || u.Host == "" {
		w.stumble("no-server-metadata", "the issuer %q is no URL", issuer)
		return
	}
	origin, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	a := w.first(ctx, w.step.Places, map[string]string{
		"oauth":    origin + "/.well-known/oauth-authorization-server" + path,
		"openid":   origin + "/.well-known/openid-configuration" + path,
		"appended": origin + path + "/.well-known/openid-configuration",
	}, "no-server-metadata")
	if a == nil {
		return
	}
	switch {
	case !a.document(&w.server):
		w.stumble("not-json", "%s: %s", a.what, w.short(a))
	case w.step.Strict && w.server.Issuer != issuer:
		w.stumble("issuer-differs", "%s: issuer is %s", a.what, differs(w.server.Issuer, issuer))
	case w.server.Authorization == "" || w.server.Token == "":
		w.stumble("no-endpoints", "%s: %s", a.what, w.short(a))
	case !slices.Contains(w.server.Challenges, "S256"):
		w.stumble("no-s256", "%s: code_challenge_methods_supported is %q", a.what, w.server.Challenges)
	default:
		w.ok("%s: issuer %s, S256", a.what, w.server.Issuer)
	}
}

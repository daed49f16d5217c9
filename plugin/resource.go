package plugin

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// resource is what an issuer's tokens are for. Its origin comes from the
// configuration, never from a request's Host.
type resource struct {
	origin string // https://node.example.net
	base   string // path of the configured URL, without a slash at its end
	folder string // of base, where that ends in /mcp or /sse: one server's endpoints; else base
	own    string // the issuer's own name for it, such as a GUID; empty: none
}

const metadataPath = "/.well-known/oauth-protected-resource"

// newResource takes the origin alone for the whole prefix.
func newResource(u *url.URL, prefix string) resource {
	res := resource{origin: origin(u), base: strings.TrimSuffix(u.EscapedPath(), "/")}
	if res.base == "" {
		res.base = prefix
	}
	res.folder = res.base
	for _, end := range []string{"/mcp", "/sse"} {
		folder := strings.TrimSuffix(res.base, end)
		if folder != res.base && insidePath(folder, prefix) {
			res.folder = folder
		}
	}
	return res
}

// origin is written as clients write it: in lower case, without a default port
// (RFC 3986, section 6.2).
func origin(u *url.URL) string {
	usual := map[string]string{"https": ":443", "http": ":80"}[u.Scheme]
	return u.Scheme + "://" + strings.TrimSuffix(strings.ToLower(u.Host), usual)
}

// isFor says whether a token's audiences allow the path that it was sent to: the
// path's own URL, with or without a slash at its end, or the base's, whose path
// the request must be inside of. Else a token for one server of many would open
// them all.
func isFor(res *resource, audiences []string, path string) bool {
	path = strings.TrimSuffix(path, "/")
	for _, a := range audiences {
		if res.own != "" && a == res.own {
			return true
		}
		u, err := url.Parse(strings.TrimSuffix(a, "/"))
		if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" || origin(u) != res.origin {
			continue
		}
		at := u.EscapedPath()
		if at == path || (at == res.base && inBase(res, path)) ||
			(strings.HasSuffix(at, "/sse") && isMailbox(path, at)) {
			return true
		}
	}
	return false
}

// inBase is also true for the other endpoints of the server that base is one of.
func inBase(res *resource, path string) bool {
	return insidePath(path, res.base) || (insidePath(path, res.folder) &&
		!strings.Contains(strings.TrimPrefix(path[len(res.folder):], "/"), "/"))
}

// isMailbox says whether a path is where the legacy transport of the servers that
// are known takes the messages of the stream at sse.
func isMailbox(path, sse string) bool {
	folder := strings.TrimSuffix(sse, "/sse")
	return path == folder+"/messages" || path == folder+"/message"
}

// challenge is the value of WWW-Authenticate (RFC 6750, section 3; RFC 9728,
// section 5.1). Without OAuth it is bare: clients drop a configured token for a
// server that seems to offer OAuth.
func challenge(c *call, code, text string) string {
	is := c.e.oauth
	if is == nil {
		return "Bearer"
	}
	value := `Bearer resource_metadata="` + is.resource.origin + metadataPath + c.r.URL.EscapedPath() + `"`
	if len(is.scopes) > 0 {
		value += `, scope="` + strings.Join(is.scopes, " ") + `"`
	}
	if code != "" {
		value += `, error="` + code + `", error_description="` + text + `"`
	}
	return value
}

// metadata is what clients need to find the issuer (RFC 9728, section 2).
type metadata struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Methods  []string `json:"bearer_methods_supported"`
	Scopes   []string `json:"scopes_supported,omitempty"`
}

// wellKnown answers every well-known path here. In token mode it is 404: any
// other answer makes clients look for an OAuth server. The resource is the path
// that was asked for, since clients compare it with the URL that they were given
// (RFC 9728, section 3.3). All of it is public, so pages of any origin may read
// it (Fetch standard, section 3.3).
func wellKnown(c *call, path string) bool {
	is := c.e.oauth
	h := c.rw.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	rest := strings.TrimPrefix(path, metadataPath)
	if is == nil || rest == path || !hasMetadata(c.e, rest) {
		return refuse(c, http.StatusNotFound, "well_known", "nothing is published here")
	}
	switch c.method {
	case http.MethodGet, http.MethodHead:
	case http.MethodOptions:
		h.Set("Access-Control-Allow-Methods", "GET, HEAD")
		h.Set("Access-Control-Allow-Headers", "*")
		h.Set("Access-Control-Max-Age", "86400")
		return answer(c, http.StatusNoContent, "metadata", "", nil)
	default:
		h.Set("Allow", "GET, HEAD, OPTIONS")
		return refuse(c, http.StatusMethodNotAllowed, "http_method", "the metadata can only be read")
	}
	if rest == "" {
		rest = is.resource.base
	}
	body, _ := json.Marshal(metadata{is.resource.origin + rest, []string{is.url}, []string{"header"}, is.scopes})
	return answer(c, http.StatusOK, "metadata", "application/json", body)
}

// hasMetadata says whether rest is empty or a path that requests may be sent to.
func hasMetadata(e *edge, rest string) bool {
	bare := strings.TrimSuffix(rest, "/")
	return rest == "" || bare == e.prefix || e.alike.MatchString(bare)
}

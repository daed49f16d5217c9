package client

import (
	"cmp"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sallyport-dev/sallyport/login/settings"
	"github.com/sallyport-dev/sallyport/login/store"
)

// MaxRedirects is how many redirect URIs of one client are kept.
const MaxRedirects = 20

// usable keeps the redirect URIs that may ever be navigated to and drops the others:
// clients register several, and refusing one would refuse them all.
func usable(uris []string) (kept []string) {
	for _, raw := range uris {
		if len(kept) < MaxRedirects && allowed(raw) && !slices.Contains(kept, raw) {
			kept = append(kept, raw)
		}
	}
	return kept
}

// printable leaves out what browsers and servers read differently: blanks, control and
// non-ASCII characters, quotes, the backslash, user parts and fragments. In a host none of
// them may stand escaped either: the page shows it decoded, letters that look like others.
var printable = regexp.MustCompile("^[!$-&(-;=?A-[\\]^_`a-z{|}~]{1,1000}$")

// ours are the parameters of our answer (RFC 6749, section 4.1.2; RFC 9207). With one of
// them registered a client would get two, and might believe the wrong one.
var ours = regexp.MustCompile(`(?is)^\s*(code|state|iss|error(_description|_uri)?)\s*(\[.*)?$`)

// cursorLink is Cursor's, the only redirect URI with an app's own scheme that is taken.
const cursorLink = "cursor://anysphere.cursor-mcp/oauth/callback"

// allowed is https with a host, http on loopback (RFC 8252, section 7.3), or
// Cursor's link.
func allowed(raw string) bool {
	if raw == cursorLink {
		return true
	}
	u, err := url.Parse(raw)
	if err != nil || !printable.MatchString(raw) || !printable.MatchString(u.Host) ||
		u.Hostname() == "" || u.User != nil {
		return false
	}
	_, err = strconv.ParseUint(cmp.Or(u.Port(), "0"), 10, 16)
	q, wrong := url.ParseQuery(u.RawQuery)
	taken := slices.ContainsFunc(slices.Collect(maps.Keys(q)), ours.MatchString)
	return err == nil && wrong == nil && !taken &&
		(u.Scheme == "https" || u.Scheme == "http" && settings.Loopback(u))
}

// Matches reports whether uri is one of the client's: equal byte for byte, except
// that on loopback any port will do (RFC 8252, section 7.3; Claude Code does it with
// the name localhost too).
func Matches(c *store.Client, uri string) bool {
	return slices.ContainsFunc(c.Redirects, func(registered string) bool {
		return registered == uri || loopback(registered) != "" && loopback(registered) == loopback(uri)
	})
}

// loopback writes a loopback redirect URI without its port, or "" for any other.
func loopback(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" || !settings.Loopback(u) || !allowed(raw) {
		return ""
	}
	u.Host = strings.TrimSuffix(u.Host, ":"+u.Port())
	return u.String()
}

// Local reports whether every redirect URI is on loopback: any program on the owner's
// machine could claim to be such a client.
func Local(c store.Client) bool {
	return !slices.ContainsFunc(c.Redirects, func(raw string) bool { return loopback(raw) == "" })
}

// Target is what of a redirect URI a person has to see: the host, or an app's scheme.
func Target(raw string) string {
	u, err := url.Parse(raw)
	if err == nil && (u.Scheme == "https" || u.Scheme == "http") {
		return u.Host
	}
	return raw
}

package config

import (
	"net/netip"
	"net/url"
	"strings"
)

// isHost reports whether s can stand in MCP_ALLOWED_HOSTS.
func isHost(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil || s == "*" {
		return true
	}
	return !strings.ContainsAny(s, ":/*[] ")
}

// isOrigin reports whether s is what a browser sends as Origin: a scheme, a
// host, perhaps a port, and nothing after it (RFC 6454, section 7).
func isOrigin(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && u.Scheme+"://"+u.Host == s && s == strings.ToLower(s)
}

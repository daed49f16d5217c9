package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path"
	"strings"
)

// HTTP is the part of the settings that the sandbox and the hub have in common.
type HTTP struct {
	Addr        string   // host:port
	InContainer bool     // allows an address that is not loopback
	BasePath    string   // clean, without a trailing slash; "" is the root
	Token       string   // this backend's token, at least 32 characters
	TokenFile   string   // where Token was read, "" if from the environment
	RequireEdge bool     // refuse what lacks the edge's headers
	Hosts       []string // lower case, without port; "*" is any
	Origins     []string // lower case
}

// Settings is the table of these settings with a command's own defaults.
func (h *HTTP) Settings(addr, base string) []Setting {
	return []Setting{
		{Env: "MCP_ADDR", Default: addr, Set: Address(&h.Addr),
			Help: "address to listen on; not loopback only with MCP_IN_CONTAINER"},
		{Env: "MCP_IN_CONTAINER", Default: "false", Bool: true, Set: Switch(&h.InContainer),
			Help: "this is a container: allow an address that is not loopback"},
		{Env: "MCP_BASE_PATH", Default: base, Set: h.setBase,
			Help: "path below which everything is served"},
		{Env: "MCP_AUTH_TOKEN", Secret: true, Set: h.setToken,
			Help: "this backend's token, at least 32 characters; better in a file"},
		{Env: "MCP_AUTH_TOKEN_FILE", Set: h.setTokenFile,
			Help: "file with this backend's token and at most one newline"},
		{Env: "MCP_REQUIRE_EDGE", Default: "false", Bool: true, Set: Switch(&h.RequireEdge),
			Help: "refuse requests without the edge's X-Sallyport headers"},
		{Env: "MCP_ALLOWED_HOSTS", Default: "localhost,127.0.0.1,::1", Set: h.setHosts,
			Help: "Host names that requests may carry, without port; * is any"},
		{Env: "MCP_ALLOWED_ORIGINS", Set: h.setOrigins,
			Help: "Origins that requests may carry, such as https://app.example"},
	}
}

// Check reports what is wrong between these settings.
func (h *HTTP) Check(m *Mistakes) {
	if h.Token == "" && h.TokenFile == "" {
		m.Add("MCP_AUTH_TOKEN_FILE is required: make a token with: sallyport token new FILE")
	}
	if h.Addr != "" && !h.InContainer && !IsLoopback(h.Addr) {
		m.Add("MCP_ADDR %q is not a loopback address: anybody in the network could reach it; set "+
			"MCP_IN_CONTAINER=true only in a container", h.Addr)
	}
}

// Address stores host:port to listen on; the host may be empty.
func Address(p *string) func(string) error {
	return func(v string) error {
		if _, port, err := net.SplitHostPort(v); err != nil || port == "" {
			return errors.New("must be host:port, such as 127.0.0.1:18080")
		}
		*p = v
		return nil
	}
}

// IsLoopback reports whether listening on addr reaches this machine only.
func IsLoopback(addr string) bool {
	host, _, _ := net.SplitHostPort(addr)
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func (h *HTTP) setBase(v string) error {
	if !strings.HasPrefix(v, "/") || path.Clean(v) != v || strings.ContainsAny(v, "%?#\\ ") {
		return errors.New("must be a clean absolute path without a trailing slash, such as /mcp-sandbox")
	}
	h.BasePath = strings.TrimSuffix(v, "/")
	return nil
}

func (h *HTTP) setToken(v string) error {
	h.Token = v
	return CheckToken(v)
}

func (h *HTTP) setTokenFile(v string) error {
	if h.Token != "" {
		return errors.New("MCP_AUTH_TOKEN is set too: give only one of them")
	}
	token, err := ReadToken(v)
	h.Token, h.TokenFile = token, v
	return err
}

func (h *HTTP) setHosts(v string) error {
	if err := List(&h.Hosts)(strings.ToLower(v)); err != nil {
		return err
	}
	for _, host := range h.Hosts {
		if !isHost(host) {
			return fmt.Errorf("%q is not a host name without port", host)
		}
	}
	return nil
}

func (h *HTTP) setOrigins(v string) error {
	if err := List(&h.Origins)(strings.ToLower(v)); err != nil {
		return err
	}
	for _, origin := range h.Origins {
		if !isOrigin(origin) {
			return fmt.Errorf("%q is not an origin such as https://app.example", origin)
		}
	}
	return nil
}

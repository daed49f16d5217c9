// Package client is how `sallyport` speaks to an installation: with a
// token that goes to one origin and to no other.
package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Base reads the URL that a client uses and returns it without the transport's
// last segment; a missing path is /mcp-sandbox. An address to which a token
// would travel in clear is refused.
func Base(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, errors.New("the URL cannot be read: it looks like https://node.tailnet.ts.net/mcp-sandbox/sse")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("the URL starts with https://, or with http:// on this machine")
	case u.User != nil || u.RawQuery != "":
		return nil, errors.New("the URL holds a user or a query; a token belongs in a file, see -token-file")
	case u.Scheme == "http" && !Loopback(u):
		return nil, errors.New("http:// is for this machine only: the token would travel in clear")
	}
	p := strings.TrimRight(u.Path, "/")
	p = strings.TrimSuffix(strings.TrimSuffix(p, "/sse"), "/mcp")
	if p == "" {
		p = "/mcp-sandbox"
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: p}, nil
}

// Here says where the installation's file name was looked for, and where there is
// one above the working directory. That one is only named and never taken: in a
// workspace a command could have put it there.
func Here(name string) string {
	full, err := filepath.Abs(name)
	if err != nil || filepath.IsAbs(name) {
		return name
	}
	here := strings.TrimSuffix(full, string(filepath.Separator)+name)
	for dir := filepath.Dir(here); dir != here; here, dir = dir, filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, ".sallyport")); err == nil {
			return full + "; if you mean the installation in " + dir + ", start this there"
		}
	}
	return full
}

// Barred says that the working directory's installation is another account's.
func Barred() error {
	if _, err := os.ReadDir(".sallyport"); errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%w: do this as the account that started the server, perhaps with sudo", err)
	}
	return nil
}

// Served is the URL that "make run" has recorded in the installation of the working
// directory; nil where it is not running. Only one on this machine is believed: a
// token is sent there.
func Served() *url.URL {
	raw, err := os.ReadFile(".sallyport/run/sandboxd/url")
	if err != nil {
		return nil
	}
	u, err := Base(strings.TrimSpace(string(raw)))
	if err != nil || !Loopback(u) {
		return nil
	}
	c, err := net.DialTimeout("tcp", u.Host, time.Second)
	if err != nil {
		return nil // it was killed
	}
	c.Close()
	return u
}

// Loopback reports whether u is on this machine.
func Loopback(u *url.URL) bool {
	a, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && a.IsLoopback()
}

// Bearer sends requests to the origin of Base with the token, and none to any
// other origin, wherever a server sends clients.
type Bearer struct {
	Base   *url.URL
	Token  string            // empty sends none
	Header map[string]string // further headers
	Next   http.RoundTripper
}

// RoundTrip sends req.
func (b Bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != b.Base.Scheme || req.URL.Host != b.Base.Host {
		return nil, fmt.Errorf("the server sends clients to another origin: %s", req.URL.Host)
	}
	req = req.Clone(req.Context())
	if b.Token != "" {
		req.Header.Set("Authorization", "Bearer "+b.Token)
	}
	for name, value := range b.Header {
		req.Header.Set(name, value)
	}
	return b.Next.RoundTrip(req)
}

// Transport reaches base. On loopback the certificate is not verified: there it
// is Traefik's own, and nobody stands between.
func Transport(base *url.URL, insecure bool) *http.Transport {
	return &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		ForceAttemptHTTP2: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: insecure || Loopback(base)},
	}
}

// Text is what a tool says.
func Text(res *mcp.CallToolResult) string {
	var b strings.Builder
	for _, c := range res.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

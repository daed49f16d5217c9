// Package settings reads login's environment, its flags and login.json. Every mistake
// comes in one error.
package settings

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/config"
	"github.com/sallyport-dev/sallyport/internal/strictjson"
)

// Config is login.json.
type Config struct {
	Issuer    string     `json:"issuer"`  // https://HOST/mcp-login, no slash at the end
	Subject   string     `json:"subject"` // the token's sub; default owner
	OwnHost   bool       `json:"ownHost"` // nothing but login and its MCP URLs answers on the host name
	Resources []Resource `json:"resources"`
	Clients   []Client   `json:"clients"` // registered by hand
	Base      string     `json:"-"`       // the issuer's path
}

// Resource is one MCP URL that tokens are for.
type Resource struct {
	URL     string    `json:"url"` // exact; with a slash at its end, everything below
	Name    string    `json:"name"`
	Grants  []string  `json:"grants"` // what may be ticked
	Egress  []string  `json:"egress"`
	Ticked  *[]string `json:"ticked"`  // of both, those ticked beforehand; default: grants
	Expires string    `json:"expires"` // the longest, in days: 90d
	Days    int       `json:"-"`
}

// Client is a client registered by hand.
type Client struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Redirects []string        `json:"redirects"`
	JWKS      json.RawMessage `json:"jwks"` // with keys, the client must use private_key_jwt
	JWKSURI   string          `json:"jwksUri"`
}

// MaxDays is the longest that a consent can last. maxClaims is how many strings the edge takes from a claim.
const (
	MaxDays   = 3650
	maxClaims = 100
)

var (
	subjectForm = regexp.MustCompile(`^[A-Za-z0-9._@|:-]{1,64}$`)
	grantForm   = regexp.MustCompile(`^(ask:)?(\*|method:[A-Za-z0-9/_.-]+|[A-Za-z0-9_.%-]+(/(\*|[A-Za-z0-9_.%-]+))?)$`)
	plainPath   = regexp.MustCompile(`^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$`)
)

// parse reads login.json, and records what is wrong in it.
func (c *Config) parse(raw []byte, m *config.Mistakes) {
	if err := strictjson.Into(raw, c); err != nil {
		m.Add("login.json is not readable: %v", err)
		return
	}
	path, ok := plainURL(c.Issuer)
	c.Base, c.Subject = path, cmp.Or(c.Subject, "owner")
	m.Unless(ok, `issuer %q: write the public URL, such as "https://HOST/mcp-login" (http only on loopback)`, c.Issuer)
	m.Unless(!strings.HasSuffix(c.Issuer, "/"), "issuer %q ends in a slash: leave it out, clients compare", c.Issuer)
	m.Unless(subjectForm.MatchString(c.Subject), "subject %q: write 1 to 64 of A-Z a-z 0-9 . _ @ | : -", c.Subject)
	m.Unless(len(c.Resources) > 0, `resources is empty: name each MCP URL, such as "https://HOST/mcp-oauth/sandbox/mcp"`)
	for i := range c.Resources {
		c.Resources[i].check(func(ok bool, format string, args ...any) {
			m.Unless(ok, fmt.Sprintf("resources[%d]: ", i)+format, args...)
		})
	}
}

// plainURL is https, or http on loopback, with host and path and nothing else. It returns the path.
func plainURL(raw string) (string, bool) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", false
	}
	bare := u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == "" && u.String() == raw
	return u.Path, bare && (u.Scheme == "https" || u.Scheme == "http" && Loopback(u))
}

func (r *Resource) check(unless func(ok bool, format string, args ...any)) {
	_, ok := plainURL(r.URL)
	unless(ok, "url %q: write the https URL that is typed into the client", r.URL)
	unless(len(r.Grants) > 0 && len(r.Grants) <= maxClaims && len(r.Egress) <= maxClaims,
		"grants needs 1 to %d entries, egress at most as many", maxClaims)
	for _, g := range r.Grants {
		unless(grantForm.MatchString(g), "grant %q: write tool, server/tool, server/*, * or ask: before one of them", g)
	}
	for _, e := range r.Egress {
		unless(e != "" && !strings.ContainsAny(e, " \t\r\n,"), "egress %q is no rule", e)
	}
	if r.Ticked == nil {
		r.Ticked = &r.Grants
	}
	for _, t := range *r.Ticked {
		offered := slices.Contains(r.Grants, t) || slices.Contains(r.Egress, t)
		unless(offered, "ticked %q stands in neither grants nor egress", t)
	}
	var err error
	r.Days, err = strconv.Atoi(strings.TrimSuffix(cmp.Or(r.Expires, "90d"), "d"))
	unless(err == nil && r.Days > 0 && r.Days <= MaxDays, "expires %q: write days, 1d to %dd", r.Expires, MaxDays)
	r.Name = cmp.Or(r.Name, r.URL)
}

// Find returns the resource that a client's resource parameter names (RFC 8707), and the
// audience that its tokens get, without a slash at the end. An empty parameter is the
// first resource that is not a whole subtree.
func (c *Config) Find(named string) (*Resource, string) {
	for i := range c.Resources {
		r := &c.Resources[i]
		base, below := strings.CutSuffix(r.URL, "/")
		rest, under := strings.CutPrefix(canonical(named), canonical(base))
		switch {
		case named == "" && !below, !below && under && rest == "":
			return r, r.URL
		case named != "" && below && under && plainPath.MatchString(rest):
			return r, base + rest
		}
	}
	return nil, ""
}

// canonical writes scheme and host in lower case, without the default port and a slash
// at the end (RFC 3986, section 6.2). What has other parts is nothing.
func canonical(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.User != nil || strings.ContainsAny(raw, "?#") {
		return ""
	}
	u.Host = strings.ToLower(u.Host)
	if u.Scheme == "https" {
		u.Host = strings.TrimSuffix(u.Host, ":443")
	}
	return strings.TrimSuffix(u.String(), "/")
}

// Lasting are the choices of how many days a consent lasts, up to the resource's longest.
func (r *Resource) Lasting() []int {
	days := slices.DeleteFunc([]int{1, 7, 30, 90, 365}, func(d int) bool { return d >= r.Days })
	return append(days, r.Days)
}

// DefaultAddr is where login listens unless it is told otherwise.
const DefaultAddr = "127.0.0.1:18083"

// Settings are what a start needs.
type Settings struct {
	Addr, StateDir, RevokedFile, AuditFile string
	Config                                 Config
	configFile                             string
	inContainer                            bool
}

// Table lists the settings of the server; those of the owner's verbs are the first three,
// so that they also run while login.json is wrong.
func (s *Settings) Table() config.Table {
	return config.Table{
		Command: "sallyport-login serve", Intro: "Serves OAuth to assistants, and pages to the owner (docs/login.md).",
		Settings: []config.Setting{
			{Env: "LOGIN_STATE_DIR", Required: true, Set: config.Text(&s.StateDir), Help: "login's folder, mode 0700"},
			{Env: "LOGIN_REVOKED_FILE", Set: config.Text(&s.RevokedFile),
				Help: `what the edge reads, in a folder of its own; otherwise LOGIN_STATE_DIR-revoked/revoked`},
			{Env: "LOGIN_AUDIT_FILE", Default: "off", Set: config.Text(&s.AuditFile), Help: "audit (docs/audit.md)"},
			{Env: "LOGIN_ADDR", Default: DefaultAddr, Set: config.Address(&s.Addr),
				Help: "address to listen on; beyond loopback only with LOGIN_IN_CONTAINER"},
			{Env: "LOGIN_IN_CONTAINER", Default: "false", Bool: true, Set: config.Switch(&s.inContainer),
				Help: "this is a container: allow an address that is not loopback"},
			{Env: "LOGIN_CONFIG", Required: true, Set: config.Text(&s.configFile), Help: "login.json (docs/login.md)"},
		},
	}
}

// Load reads args and the environment: all of it for the server, or what the owner's verbs
// need. With -h among args the error is flag.ErrHelp.
func Load(args []string, env config.Lookup, all bool) (*Settings, error) {
	s := &Settings{}
	table := s.Table()
	if !all {
		table.Settings = table.Settings[:3]
	}
	m, err := table.Parse(args, env)
	if err != nil {
		return nil, err
	}
	if s.AuditFile == "off" {
		s.AuditFile = ""
	}
	s.RevokedFile = cmp.Or(s.RevokedFile, filepath.Join(filepath.Clean(s.StateDir)+"-revoked", "revoked"))
	in, err := filepath.Rel(s.StateDir, filepath.Dir(s.RevokedFile))
	apart := s.StateDir == "" || err != nil || in == ".." || strings.HasPrefix(in, "../")
	m.Unless(apart, "LOGIN_REVOKED_FILE %q lies in LOGIN_STATE_DIR: give it a folder of its own", s.RevokedFile)
	m.Unless(s.Addr == "" || s.inContainer || config.IsLoopback(s.Addr),
		"LOGIN_ADDR %q is no loopback address: only Traefik on this machine may reach it", s.Addr)
	if s.configFile != "" {
		raw, err := os.ReadFile(s.configFile)
		if err == nil {
			s.Config.parse(raw, m)
		}
		m.AddError(err)
	}
	return s, m.Err()
}

// Loopback reports whether a URL's host is this machine, by name or literal.
func Loopback(u *url.URL) bool {
	return config.IsLoopback(net.JoinHostPort(u.Hostname(), "0"))
}

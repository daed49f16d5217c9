// Package settings reads login's environment, its flags and login.json. Every mistake
// comes in one error.
package settings

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/config"
)

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
			{Env: "LOGIN_STATE_DIR", Required: true, Set: config.Text(&s.StateDir), Help: "folder of keys, grants and clients, which only login can read, mode 0700"},
			{Env: "LOGIN_REVOKED_FILE", Set: config.Text(&s.RevokedFile),
				Help: `what the edge reads, in a folder of its own; otherwise "revoked" in the folder LOGIN_STATE_DIR-revoked`},
			{Env: "LOGIN_AUDIT_FILE", Default: "off", Set: config.Text(&s.AuditFile), Help: "the audit's chain, in a folder of its own (docs/audit.md)"},
			{Env: "LOGIN_ADDR", Default: DefaultAddr, Set: config.Address(&s.Addr), Help: "address to listen on; beyond loopback only with LOGIN_IN_CONTAINER"},
			{Env: "LOGIN_IN_CONTAINER", Default: "false", Bool: true, Set: config.Switch(&s.inContainer), Help: "this is a container: allow an address that is not loopback"},
			{Env: "LOGIN_CONFIG", Required: true, Set: config.Text(&s.configFile), Help: "login.json: issuer and resources"},
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
	if s.RevokedFile == "" {
		s.RevokedFile = filepath.Join(filepath.Clean(s.StateDir)+"-revoked", "revoked")
	}
	in, err := filepath.Rel(s.StateDir, filepath.Dir(s.RevokedFile))
	apart := s.StateDir == "" || err != nil || in == ".." || strings.HasPrefix(in, "../")
	m.Unless(apart, "LOGIN_REVOKED_FILE %q lies in LOGIN_STATE_DIR, which the edge must not read: give it a folder of its own", s.RevokedFile)
	m.Unless(s.Addr == "" || s.inContainer || config.IsLoopback(s.Addr), "LOGIN_ADDR %q is no loopback address: only Traefik on this machine may reach it", s.Addr)
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
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

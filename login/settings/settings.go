// Package settings reads login's environment and login.json. Every mistake comes in
// one error.
package settings

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// Settings are what a start needs.
type Settings struct {
	Addr, StateDir, RevokedFile, AuditFile string
	Config                                 Config
}

// Usage names every setting.
const Usage = `  LOGIN_ADDR          where to listen (127.0.0.1:18083); beyond loopback only with LOGIN_IN_CONTAINER=true
  LOGIN_STATE_DIR     folder of keys, grants and clients, mode 0700; required
  LOGIN_CONFIG        login.json: issuer and resources; required
  LOGIN_REVOKED_FILE  what the edge reads (the file "revoked" in the folder LOGIN_STATE_DIR-revoked)
  LOGIN_AUDIT_FILE    the audit's chain, in a folder of its own (off)
`

// Load reads them from getenv, which is os.Getenv outside tests. With all unset but the
// state directory it is enough for the owner's verbs, which also run while login.json is wrong.
func Load(getenv func(string) string, all bool) (*Settings, error) {
	s := &Settings{
		Addr: or(getenv("LOGIN_ADDR"), "127.0.0.1:18083"), StateDir: getenv("LOGIN_STATE_DIR"), AuditFile: getenv("LOGIN_AUDIT_FILE"),
	}
	s.RevokedFile = or(getenv("LOGIN_REVOKED_FILE"), filepath.Join(filepath.Clean(s.StateDir)+"-revoked", "revoked"))
	wrong := []error{s.checkFiles()}
	if s.AuditFile == "off" {
		s.AuditFile = ""
	}
	if !all {
		return s, errors.Join(wrong...)
	}
	container := or(getenv("LOGIN_IN_CONTAINER"), "false")
	if container != "true" && container != "false" {
		wrong = append(wrong, fmt.Errorf("LOGIN_IN_CONTAINER=%q: write true or false", container))
	}
	host, _, err := net.SplitHostPort(s.Addr)
	if err != nil {
		wrong = append(wrong, fmt.Errorf("LOGIN_ADDR=%q: write host:port (%w)", s.Addr, err))
	} else if ip := net.ParseIP(host); container != "true" && (ip == nil || !ip.IsLoopback()) {
		wrong = append(wrong, fmt.Errorf("LOGIN_ADDR=%q is no loopback address: only Traefik on this machine may reach it", s.Addr))
	}
	name := getenv("LOGIN_CONFIG")
	if name == "" {
		wrong = append(wrong, errors.New("LOGIN_CONFIG is not set: name login.json (docs/login.md)"))
	} else if raw, err := os.ReadFile(name); err != nil {
		wrong = append(wrong, fmt.Errorf("LOGIN_CONFIG: %w", err))
	} else if err := s.Config.parse(raw); err != nil {
		wrong = append(wrong, fmt.Errorf("%s:\n%w", name, err))
	}
	return s, errors.Join(wrong...)
}

func (s *Settings) checkFiles() error {
	if s.StateDir == "" {
		return errors.New("LOGIN_STATE_DIR is not set: name a folder that only login can read")
	}
	in, err := filepath.Rel(s.StateDir, filepath.Dir(s.RevokedFile))
	if err == nil && in != ".." && !strings.HasPrefix(in, "../") {
		return fmt.Errorf("LOGIN_REVOKED_FILE=%s lies in LOGIN_STATE_DIR, which the edge must not read: give it a folder of its own", s.RevokedFile)
	}
	return nil
}

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

// Loopback reports whether a URL's host is this machine, by name or literal.
func Loopback(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// welcome prints all that a client needs. The token itself is not printed, and
// the client's line keeps it out of arguments and of the client's settings: the
// client runs the helper whenever it connects.
func (o options) welcome(out io.Writer, addr, base, workspace string, hosts []string) {
	url := "http://" + addr + base
	file, err := filepath.Abs(o.tokenFile)
	if err != nil {
		file = o.tokenFile
	}
	fmt.Fprintf(out, `Serving %s on this machine only. Stop with Ctrl-C.

  URL      %s/mcp   (older clients: %s/sse)
  token    cat %s
%s
Claude Code:

  %s

Other clients: docs/clients. To check the installation, in another terminal: bin/sallyport doctor

`, workspace, url, url, quote(file), network(hosts), claude(url+"/mcp", file))
}

// network is the line about what commands reach; none without -egress.
func network(hosts []string) string {
	if len(hosts) == 0 {
		return ""
	}
	return "  network  commands reach: " + strings.Join(hosts, ", ") + "\n"
}

// urlFile tells doctor and attack where this installation is served.
func (o options) urlFile() string { return filepath.Join(o.state(), "run", "sandboxd", "url") }

// remember writes it, and gives it and the folders on its way to the owner of the
// workspace, whom this process becomes.
func (o options) remember(address, workspace string) error {
	file := o.urlFile()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	_ = os.Remove(file) // of another owner, left behind
	if err := os.WriteFile(file, []byte("http://"+address+"\n"), 0o600); err != nil {
		return err
	}
	return giveTo(workspace, o.state(), filepath.Join(o.state(), "run"), filepath.Dir(file), file)
}

// where is the URL of the process that serves this installation, if it is known.
func (o options) where() string {
	raw, err := os.ReadFile(o.urlFile())
	if err != nil {
		return ""
	}
	return " (" + strings.TrimSpace(string(raw)) + ")"
}

// claude is the line that adds the server to Claude Code.
func claude(url, file string) string {
	helper := fmt.Sprintf(`printf '{"Authorization":"Bearer %%s"}' "$(cat %s)"`, quote(file))
	server, err := json.Marshal(struct {
		Type    string `json:"type"`
		URL     string `json:"url"`
		Headers string `json:"headersHelper"`
	}{"http", url, helper})
	if err != nil {
		return ""
	}
	return "claude mcp add-json sallyport " + quote(string(server))
}

var plain = regexp.MustCompile(`^[A-Za-z0-9/._-]+$`)

// quote makes one word of s for a POSIX shell.
func quote(s string) string {
	if plain.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
)

// welcome prints all that a client needs. The token itself is not printed, and
// the client's line keeps it out of arguments and of the client's settings: the
// client runs the helper whenever it connects.
func (o options) welcome(out io.Writer, addr, base, workspace string) {
	url := "http://" + addr + base
	file, err := filepath.Abs(o.tokenFile)
	if err != nil {
		file = o.tokenFile
	}
	fmt.Fprintf(out, `Serving %s on this machine only. Stop with Ctrl-C.

  URL      %s/mcp   (older clients: %s/sse)
  token    cat %s

Claude Code:

  %s

Other clients: docs/clients. To check the installation, in another terminal: bin/sallyport doctor

`, workspace, url, url, quote(file), claude(url+"/mcp", file))
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

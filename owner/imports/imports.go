// Package imports takes the MCP servers of other programs' files into mcp.json:
// Claude's, Cursor's, VS Code's, Cline's, Zed's, OpenCode's and others. What has no
// counterpart here is left out, with a word on what to write instead.
package imports

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/sallyport-dev/sallyport/internal/cli"
	"github.com/sallyport-dev/sallyport/internal/mcpjson"
	"github.com/sallyport-dev/sallyport/internal/terminal"
)

const usage = `usage: sallyport import [-write] [-into FILE] FILE

Reads the MCP servers of FILE, a configuration of Claude, Cursor, VS Code,
Cline, Zed, OpenCode or another client (JSON), prints them as entries of mcp.json, and on standard
error what was left out and what to write instead. With -write they are added to
the file of -into (default config/mcp.json); a name that is there stays as it is.
Exit code: 0 everything was taken, 1 something was left out, or an error, 2 wrong usage.
`

// Main is "sallyport import".
var Main = cli.Tool("sallyport import", usage, parse,
	func(_ context.Context, o options, stdout, stderr io.Writer) (int, error) {
		return run(o.from, o.into, o.write, stdout, stderr)
	})

type options struct {
	from, into string
	write      bool
}

func parse(args []string) (o options, err error) {
	f := cli.Flags("sallyport import")
	f.BoolVar(&o.write, "write", false, "")
	f.StringVar(&o.into, "into", "config/mcp.json", "")
	if err = f.Parse(args); err == nil && f.NArg() != 1 {
		err = errors.New("it takes one FILE, after the flags")
	}
	o.from = f.Arg(0)
	return o, err
}

func run(from, into string, write bool, stdout, stderr io.Writer) (int, error) {
	raw, err := os.ReadFile(from)
	if err != nil {
		return 1, err
	}
	entries, notes, err := Convert(raw)
	if err != nil {
		return 1, fmt.Errorf("%s: %w", from, err)
	}
	for _, note := range notes {
		fmt.Fprintln(stderr, terminal.Escape(note))
	}
	code := 0
	if len(notes) > 0 {
		code = 1
	}
	if !write {
		return code, show(stdout, entries)
	}
	added, err := merge(into, entries, stderr)
	if err == nil {
		fmt.Fprintf(stdout, "%d servers added to %s.\n", added, into)
	}
	return code, err
}

func show(out io.Writer, entries map[string]map[string]any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(map[string]any{"mcpServers": entries})
}

// merge adds the entries to mcp.json, which it replaces as a whole.
func merge(file string, entries map[string]map[string]any, stderr io.Writer) (added int, err error) {
	root := map[string]json.RawMessage{}
	servers := map[string]json.RawMessage{}
	mode := os.FileMode(0o600)
	old, err := os.ReadFile(file)
	if err == nil {
		if _, err = mcpjson.Parse(old); err == nil {
			err = errors.Join(json.Unmarshal(old, &root), json.Unmarshal(root["mcpServers"], &servers))
		}
		if info, e := os.Stat(file); e == nil {
			mode = info.Mode().Perm()
		}
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if servers[name] != nil {
			fmt.Fprintf(stderr, "%s: a server of this name is in %s already and stays as it is\n", name, file)
			continue
		}
		if servers[name], err = json.Marshal(entries[name]); err != nil {
			return added, err
		}
		added++
	}
	if root["mcpServers"], err = json.Marshal(servers); err != nil {
		return added, err
	}
	var text bytes.Buffer
	if err := errors.Join(encode(&text, root), os.WriteFile(file+".new", text.Bytes(), mode)); err != nil {
		return added, err
	}
	return added, os.Rename(file+".new", filepath.Clean(file))
}

func encode(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

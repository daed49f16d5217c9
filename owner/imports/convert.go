package imports

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/mcpjson"
)

// Convert reads another program's file and returns entries of mcp.json by name,
// and a line for whatever was changed in meaning or left out. A file without
// servers is an error.
func Convert(raw []byte) (entries map[string]map[string]any, notes []string, err error) {
	var root map[string]any
	if err := json.Unmarshal(plainJSON(raw), &root); err != nil {
		return nil, nil, fmt.Errorf("not JSON, also without its comments: %w", err)
	}
	found := serversOf(root)
	if len(found) == 0 {
		return nil, nil,
			errors.New(`no servers in it: looked for "mcpServers" (Claude, Cursor, Cline), "servers" and ` +
				`"mcp.servers" (VS Code) and projects (Claude Code)`)
	}
	entries = map[string]map[string]any{}
	for _, was := range slices.Sorted(maps.Keys(found)) {
		fields, ok := found[was].(map[string]any)
		if !ok {
			notes = append(notes, was+": is no object; left out")
			continue
		}
		name := serverName(was)
		c := conversion{name: name, in: fields, out: map[string]any{}}
		if name != was {
			c.note("is the name here, for %q: names are letters, digits, - and _", was)
		}
		if c.convert() && c.valid() {
			entries[name] = c.out
		}
		notes = append(notes, c.notes...)
	}
	return entries, notes, nil
}

// serversOf are the servers of a file, wherever that program keeps them.
func serversOf(root map[string]any) map[string]any {
	all := map[string]any{}
	take := func(v any) {
		if m, ok := v.(map[string]any); ok {
			maps.Copy(all, m)
		}
	}
	if projects, ok := root["projects"].(map[string]any); ok { // ~/.claude.json
		for _, name := range slices.Sorted(maps.Keys(projects)) {
			if p, ok := projects[name].(map[string]any); ok {
				take(p["mcpServers"])
			}
		}
	}
	if settings, ok := root["mcp"].(map[string]any); ok { // VS Code's settings.json
		take(settings["servers"])
	}
	take(root["servers"])
	take(root["mcpServers"])
	return all
}

var foreign = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// serverName is a name that a path and a grant can hold.
func serverName(s string) string {
	s = strings.Trim(foreign.ReplaceAllString(s, "-"), "-_")
	if len(s) > 64 {
		s = strings.TrimRight(s[:64], "-_")
	}
	if s == "" {
		return "server"
	}
	return s
}

// conversion of one server.
type conversion struct {
	name    string
	in, out map[string]any
	notes   []string
}

func (c *conversion) note(format string, args ...any) {
	c.notes = append(c.notes, c.name+": "+fmt.Sprintf(format, args...))
}

// valid asks mcp.json's own reader.
func (c *conversion) valid() bool {
	raw, err := json.Marshal(map[string]any{"mcpServers": map[string]any{c.name: c.out}})
	if err == nil {
		var config *mcpjson.Config
		if config, err = mcpjson.Parse(raw); err == nil {
			err = config.Broken[c.name]
		}
	}
	if err != nil {
		c.note("left out: %v", err)
	}
	return err == nil
}

// text is a field that is a string, or "".
func (c *conversion) text(field string) string {
	s, _ := c.in[field].(string)
	return s
}

// convert fills out, or says why it cannot.
func (c *conversion) convert() bool {
	if off, _ := c.in["disabled"].(bool); off {
		c.note(`is disabled there; left out. Remove "disabled" to take it`)
		return false
	}
	url := c.text("url")
	for _, other := range []string{"serverUrl", "httpUrl"} {
		if url == "" {
			url = c.text(other)
		}
	}
	switch kind := strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(c.text("type") +
		c.text("transport"))); {
	case kind == "docker" || kind == "unix" || kind == "tcp":
		c.out = maps.Clone(c.in) // an entry of ours
		return true
	case kind == "sse" || kind == "" && strings.HasSuffix(strings.TrimRight(url, "/"), "/sse"):
		c.remote("sse", url)
	case kind == "http" || kind == "streamablehttp" || kind == "" && url != "":
		c.remote("http", url)
	case kind == "stdio" || kind == "":
		if !c.stdio() {
			return false
		}
	default:
		c.note("left out: its type %q is not known here; write stdio, http or sse", c.text("type"))
		return false
	}
	c.rest()
	return true
}

func (c *conversion) remote(kind, url string) {
	c.out["type"], c.out["url"] = kind, c.variables("url", url)
	headers, ok := c.in["headers"].(map[string]any)
	if !ok {
		return
	}
	out := map[string]any{}
	for name, value := range headers {
		s, _ := value.(string)
		out[name] = c.variables("headers."+name, s)
		c.secret("headers."+name, name, s)
	}
	c.out["headers"] = out
}

// handled are the fields that convert, remote and stdio read.
var handled = []string{"type", "transport", "command", "args", "env", "url", "serverUrl", "httpUrl", "headers",
	"disabled", "timeout"}

// words for the fields that have no counterpart.
var words = map[string]string{
	"cwd":           "a stdio server has a private working directory; name paths in args",
	"autoApprove":   "which tools may be called is in the token's tools at the edge (\"%s/TOOL\")",
	"alwaysAllow":   "which tools may be called is in the token's tools at the edge (\"%s/TOOL\")",
	"disabledTools": "name the tools that may be called in the token's tools at the edge (\"%s/TOOL\")",
	"envFile":       "put its lines into config/hub.env and name each in env: {\"KEY\": \"${KEY}\"}",
	"oauth":         "nobody is there to log in; write headers with ${VAR}",
	"headersHelper": "it would run a command in the hub; write headers with ${VAR}",
}

// rest says what happens to the fields that were not read.
func (c *conversion) rest() {
	if n, ok := c.in["timeout"].(float64); ok && n >= 1 {
		if n < 1000 { // Cline writes seconds, Claude Code milliseconds
			n *= 1000
		}
		c.out["timeout"] = int64(n)
	}
	for _, field := range slices.Sorted(maps.Keys(c.in)) {
		word, known := words[field]
		switch {
		case slices.Contains(handled, field):
		case known && strings.Contains(word, "%s"):
			c.note("%s is left out: "+word, field, c.name)
		case known:
			c.note("%s is left out: %s", field, word)
		default:
			c.note("%s is left out: it has no meaning here", field)
		}
	}
}

var (
	envVariable = regexp.MustCompile(`\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}`)
	input       = regexp.MustCompile(`\$\{input:([A-Za-z0-9_.-]+)\}`)
	ofEditor    = regexp.MustCompile(`\$\{(workspaceFolder|workspaceFolderBasename|userHome|pathSeparator|/)[^}]*\}`)
)

// variables writes an editor's variables as mcp.json has them.
func (c *conversion) variables(field, s string) string {
	s = envVariable.ReplaceAllString(s, "$${$1}")
	s = input.ReplaceAllStringFunc(s, func(v string) string {
		name := strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(input.FindStringSubmatch(v)[1]))
		c.note("%s: nobody is asked for a value here: put %s=… into config/hub.env", field, name)
		return "${" + name + "}"
	})
	if v := ofEditor.FindString(s); v != "" {
		c.note("%s: %s means nothing here: write the path", field, v)
		s = strings.ReplaceAll(s, "${", "$ {")
	}
	return s
}

var secretName = regexp.MustCompile(`(?i)key|token|secret|password|authorization|credential`)

// secret advises to keep a secret out of the file, without printing it.
func (c *conversion) secret(field, name, value string) {
	if value != "" && !strings.Contains(value, "${") && secretName.MatchString(name) {
		c.note("%s is written out; better put the value into config/hub.env and write ${%s}", field,
			strings.ToUpper(foreign.ReplaceAllString(strings.ReplaceAll(name, "-", "_"), "_")))
	}
}

// plainJSON is raw without comments, commas before a closing bracket and a byte
// order mark, which editors allow in their files.
func plainJSON(raw []byte) []byte {
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	var out []byte
	for i := 0; i < len(raw); i++ {
		switch rest := raw[i:]; {
		case raw[i] == '"':
			end := stringEnd(raw, i)
			out = append(out, raw[i:end]...)
			i = end - 1
		case bytes.HasPrefix(rest, []byte("//")):
			if end := bytes.IndexByte(rest, '\n'); end >= 0 {
				i += end - 1
			} else {
				i = len(raw)
			}
		case bytes.HasPrefix(rest, []byte("/*")):
			if end := bytes.Index(rest[2:], []byte("*/")); end >= 0 {
				i += end + 3
			} else {
				i = len(raw)
			}
		case raw[i] == '}' || raw[i] == ']':
			out = append(bytes.TrimSuffix(bytes.TrimRight(out, " \t\r\n"), []byte(",")), raw[i])
		default:
			out = append(out, raw[i])
		}
	}
	return out
}

// stringEnd is the index after the string that starts at i.
func stringEnd(raw []byte, i int) int {
	for i++; i < len(raw) && raw[i] != '"'; i++ {
		if raw[i] == '\\' {
			i++
		}
	}
	return min(i+1, len(raw))
}

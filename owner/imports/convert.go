package imports

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/mcpjson"
)

// Convert reads another program's file and returns entries of mcp.json by name,
// and a line for whatever was changed in meaning or left out. A file without
// servers is an error.
func Convert(raw []byte) (entries map[string]map[string]any, notes []string, err error) {
	var root map[string]any
	if err := json.Unmarshal(plainJSON(raw), &root); err != nil {
		return nil, nil, fmt.Errorf("not JSON, also without its comments; servers of a TOML or YAML file have to be "+
			"written as {\"mcpServers\": {\"NAME\": {…}}} first: %w", err)
	}
	servers := serversOf(root)
	if len(servers) == 0 {
		return nil, nil,
			errors.New(`no servers in it: looked for "mcpServers", "servers", "mcp", "context_servers" and the like; ` +
				"write its servers as {\"mcpServers\": {\"NAME\": {…}}}")
	}
	entries = map[string]map[string]any{}
	taken := map[string]any{}
	for _, f := range servers {
		fields, ok := f.value.(map[string]any)
		if !ok {
			notes = append(notes, f.name+": is no object; left out")
			continue
		}
		name, again := serverName(f.name, fields, taken)
		if again {
			continue
		}
		c := conversion{name: name, in: flat(fields), out: map[string]any{}}
		if name != f.name {
			c.note("is the name here, for %q: names are letters, digits, - and _, and each is there once", f.name)
		}
		if c.convert() && c.valid() {
			entries[name] = c.out
		}
		notes = append(notes, c.notes...)
	}
	return entries, notes, nil
}

var foreign = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// serverName is a name that a path and a grant can hold, and that no other server of
// the file has; again says that this very server was there.
func serverName(s string, fields any, taken map[string]any) (name string, again bool) {
	s = strings.Trim(foreign.ReplaceAllString(s, "-"), "-_")
	if len(s) > 60 {
		s = strings.TrimRight(s[:60], "-_")
	}
	if s == "" {
		s = "server"
	}
	name = s
	for n := 2; taken[name] != nil; n++ {
		if reflect.DeepEqual(taken[name], fields) {
			return name, true
		}
		name = fmt.Sprintf("%s-%d", s, n)
	}
	taken[name] = fields
	return name, false
}

// flat takes out what some programs wrap: transport or command as an object, and a
// command as a list.
func flat(fields map[string]any) map[string]any {
	out := maps.Clone(fields)
	for _, key := range []string{"transport", "command"} {
		if inner, ok := fields[key].(map[string]any); ok {
			delete(out, key)
			maps.Copy(out, inner)
		}
	}
	if list, ok := out["command"].([]any); ok && len(list) > 0 {
		more, _ := out["args"].([]any)
		out["command"], out["args"] = list[0], append(slices.Clone(list[1:]), more...)
	}
	for from, to := range map[string]string{"path": "command", "environment": "env", "transportType": "type"} {
		if v, there := out[from]; there && out[to] == nil {
			out[to] = v
			delete(out, from)
		}
	}
	return out
}

// value is a text, number or truth value as text.
func (c *conversion) value(field string, v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	c.note("%s is no text; it is empty here", field)
	return ""
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
	for field, off := range map[string]bool{"disabled": true, "enabled": false, "isActive": false} {
		if v, ok := c.in[field].(bool); ok && v == off {
			c.note("is disabled there; left out. Remove %q to take it", field)
			return false
		}
	}
	url := ""
	for _, field := range addresses {
		url = cmp.Or(url, c.text(field))
	}
	said := cmp.Or(c.text("type"), c.text("transport"))
	switch kind := strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(said)); {
	case kind == "docker" || kind == "unix" || kind == "tcp":
		c.out = maps.Clone(c.in) // an entry of ours
		return true
	case kind == "sse" || kind == "" && strings.HasSuffix(strings.TrimRight(url, "/"), "/sse"):
		c.remote("sse", url)
	case kind == "http" || kind == "streamablehttp" || kind == "remote" || kind == "" && url != "":
		c.remote("http", url)
	case kind == "stdio" || kind == "local" || kind == "":
		if !c.stdio() {
			return false
		}
	default:
		c.note("left out: its type %q is not known here; write stdio, http or sse", said)
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
		s := c.variables("headers."+name, c.value("headers."+name, value))
		out[name] = s
		c.secret("headers."+name, name, s)
	}
	c.out["headers"] = out
}

// handled are the fields that convert, remote and stdio read.
var handled = append([]string{"type", "transport", "command", "args", "env", "headers", "disabled", "enabled",
	"isActive", "timeout", "name"}, addresses...)

// addresses are the fields in which programs keep a URL.
var addresses = []string{"url", "serverUrl", "httpUrl", "baseUrl"}

// words for the fields that have no counterpart.
var words = map[string]string{
	"cwd":           "a stdio server has a private working directory; name paths in args",
	"autoApprove":   "which tools may be called is in the token's tools at the edge (\"%s/TOOL\")",
	"alwaysAllow":   "which tools may be called is in the token's tools at the edge (\"%s/TOOL\")",
	"tools":         "which tools may be called is in the token's tools at the edge (\"%s/TOOL\")",
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
	envVariable = regexp.MustCompile(`\$?\{env:([A-Za-z_][A-Za-z0-9_]*)\}`)
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

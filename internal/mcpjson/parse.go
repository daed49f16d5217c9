package mcpjson

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/sallyport-dev/sallyport/internal/strictjson"
)

// MaxFile bounds mcp.json, in bytes.
const MaxFile = 1 << 20

var serverName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// Parse reads mcp.json: one object whose "mcpServers" holds the entries, as
// Claude Code writes it. A file that is not such an object is an error; a
// mistake inside one entry puts only that entry into Broken.
func Parse(data []byte) (*Config, error) {
	if len(data) > MaxFile {
		return nil, fmt.Errorf("mcp.json is larger than %d bytes", MaxFile)
	}
	root, err := strictjson.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("mcp.json: %w", err)
	}
	servers, err := topLevel(root)
	if err != nil {
		return nil, fmt.Errorf("mcp.json: %w", err)
	}
	c := &Config{Servers: map[string]*Entry{}, Broken: map[string]error{}}
	for _, name := range servers.Keys {
		e, err := parseEntry(name, servers.Values[name])
		if slices.Contains(servers.Duplicates, name) {
			err = strictjson.Mistakes{"there is more than one server of this name"}
		}
		if err != nil {
			c.Broken[name] = err
			continue
		}
		c.Servers[name] = e
	}
	c.checkNested()
	return c, nil
}

func topLevel(root any) (*strictjson.Object, error) {
	o, ok := root.(*strictjson.Object)
	if !ok {
		return nil, errors.New(`must be an object with the key "mcpServers"`)
	}
	r, servers := &strictjson.Reader{}, (*strictjson.Object)(nil)
	r.Fields(o, map[string]func(string, any){
		"$schema": func(string, any) {},
		"mcpServers": func(field string, v any) {
			if servers, ok = v.(*strictjson.Object); !ok {
				r.Fail(field, "must be an object that maps names to servers")
			}
		},
	}, func(key string) string {
		if key == "servers" || key == "globalShortcut" || key == "mcp" || key == "inputs" || key == "projects" {
			return "is another program's: take its servers over with `sallyport import FILE`"
		}
		return ""
	})
	if err := r.Err(); err != nil {
		return nil, err
	}
	if servers == nil {
		return nil, errors.New(`the key "mcpServers" is missing`)
	}
	return servers, nil
}

func parseEntry(name string, v any) (*Entry, error) {
	r := &strictjson.Reader{}
	if !IsServerName(name) {
		r.Fail(fmt.Sprintf("name %q", name), "must be 1 to 64 letters, digits, - and _, the first a letter or digit")
	}
	o, ok := v.(*strictjson.Object)
	if !ok {
		r.Fail("entry", "must be an object")
		return nil, r.Err()
	}
	e := &Entry{Name: name, Type: kind(r, o), Hub: true, Hash: hash(o)}
	if e.Type == Docker {
		e.Container = dockerDefaults()
	}
	if e.Type != "" {
		r.Fields(o, known(r, e), func(key string) string { return advice(e.Type, key) })
		required(r, e)
		check(r, e)
	}
	e.Warnings = r.Warnings
	return e, r.Err()
}

func hash(o *strictjson.Object) string {
	canonical, _ := json.Marshal(strictjson.Plain(o)) // strings, numbers, bools: cannot fail
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

// kind of the entry. Without a "type" it is Claude Code's stdio form.
func kind(r *strictjson.Reader, o *strictjson.Object) string {
	v, found := o.Values["type"]
	if !found {
		if _, remote := o.Values["url"]; remote {
			r.Fail("type",
				`is missing: "http" or "sse" for a server with a url `+
					"(`sallyport import` reads the files of Cursor and others)")
			return ""
		}
		return Stdio
	}
	switch s, _ := v.(string); s {
	case Docker, Unix, TCP, Stdio, HTTP, SSE:
		return s
	case "streamable-http", "streamable_http", "streamableHttp": // other programs' names for it
		return HTTP
	case "ws":
		r.Fail("type", "ws is not supported: use http, sse, stdio, docker, unix or tcp")
	default:
		r.Fail("type", "must be docker, unix, tcp, stdio, http or sse")
	}
	return ""
}

// required fields of each type.
func required(r *strictjson.Reader, e *Entry) {
	need := map[string][][2]string{
		Docker: {{"image", e.Container.Image}},
		Unix:   {{"socket", e.Socket}},
		TCP:    {{"host", e.Host}},
		Stdio:  {{"command", e.Command}},
		HTTP:   {{"url", e.URL}},
		SSE:    {{"url", e.URL}},
	}
	for _, field := range need[e.Type] {
		if field[1] == "" && !r.Failed(field[0]) {
			r.Fail(field[0], "is missing")
		}
	}
	if e.Type == TCP && e.Port == 0 && !r.Failed("port") {
		r.Fail("port", "is missing")
	}
}

// IsServerName reports whether s can name a server in mcp.json.
func IsServerName(s string) bool { return serverName.MatchString(s) }

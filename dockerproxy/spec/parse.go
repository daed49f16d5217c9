package spec

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
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
	root, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("mcp.json: %w", err)
	}
	servers, err := topLevel(root)
	if err != nil {
		return nil, fmt.Errorf("mcp.json: %w", err)
	}
	c := &Config{Servers: map[string]*Entry{}, Broken: map[string]error{}}
	for _, name := range servers.keys {
		e, err := parseEntry(name, servers.values[name])
		if slices.Contains(servers.duplicates, name) {
			err = Mistakes{"there is more than one server of this name"}
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

func topLevel(root any) (*object, error) {
	o, ok := root.(*object)
	if !ok {
		return nil, errors.New(`must be an object with the key "mcpServers"`)
	}
	r, servers := &reader{}, (*object)(nil)
	r.fields(o, map[string]func(string, any){
		"$schema": func(string, any) {},
		"mcpServers": func(field string, v any) {
			if servers, ok = v.(*object); !ok {
				r.fail(field, "must be an object that maps names to servers")
			}
		},
	}, func(string) string { return "" })
	if err := r.err(); err != nil {
		return nil, err
	}
	if servers == nil {
		return nil, errors.New(`the key "mcpServers" is missing`)
	}
	return servers, nil
}

func parseEntry(name string, v any) (*Entry, error) {
	r := &reader{}
	if !serverName.MatchString(name) {
		r.fail(fmt.Sprintf("name %q", name), "must be 1 to 64 letters, digits, - and _, the first a letter or digit")
	}
	o, ok := v.(*object)
	if !ok {
		r.fail("entry", "must be an object")
		return nil, r.err()
	}
	e := &Entry{Name: name, Type: kind(r, o), Hub: true, Hash: hash(o)}
	if e.Type == Docker {
		e.Container = dockerDefaults()
	}
	if e.Type != "" {
		r.fields(o, known(r, e), func(key string) string { return advice(e.Type, key) })
		required(r, e)
		check(r, e)
	}
	e.Warnings = r.warnings
	return e, r.err()
}

func hash(o *object) string {
	canonical, _ := json.Marshal(plain(o)) // strings, numbers, bools: cannot fail
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

// kind of the entry. Without a "type" it is Claude Code's stdio form.
func kind(r *reader, o *object) string {
	v, found := o.values["type"]
	if !found {
		if _, remote := o.values["url"]; remote {
			r.fail("type", `is missing: "http" or "sse" for a server with a url`)
			return ""
		}
		return Stdio
	}
	switch s, _ := v.(string); s {
	case Docker, Unix, TCP, Stdio, HTTP, SSE:
		return s
	case "streamable-http": // Claude Code's second name for it
		return HTTP
	case "ws":
		r.fail("type", "ws is not supported: use http, sse, stdio, docker, unix or tcp")
	default:
		r.fail("type", "must be docker, unix, tcp, stdio, http or sse")
	}
	return ""
}

// required fields of each type.
func required(r *reader, e *Entry) {
	need := map[string][][2]string{
		Docker: {{"image", e.Container.Image}},
		Unix:   {{"socket", e.Socket}},
		TCP:    {{"host", e.Host}},
		Stdio:  {{"command", e.Command}},
		HTTP:   {{"url", e.URL}},
		SSE:    {{"url", e.URL}},
	}
	for _, field := range need[e.Type] {
		if field[1] == "" && !r.failed(field[0]) {
			r.fail(field[0], "is missing")
		}
	}
	if e.Type == TCP && e.Port == 0 && !r.failed("port") {
		r.fail("port", "is missing")
	}
}

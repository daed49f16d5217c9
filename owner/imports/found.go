package imports

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
)

// found is a server of a file, wherever that program keeps it.
type found struct {
	name  string
	value any
}

// Servers stand below keys such as mcpServers, mcp (VS Code, OpenCode), amp.mcpServers,
// context_servers (Zed), modelContextProtocolServers (Continue), whatever stands around
// those. Elsewhere hooks and tasks have commands too.
var (
	holds   = regexp.MustCompile(`(?i)mcp|modelContextProtocol|^context_servers$|^servers$`)
	members = regexp.MustCompile(`(?i)servers$`) // each member of these is a server
)

// place is a value of a file.
type place struct {
	key   string
	value any
	below bool // a key that holds servers
	each  bool // it is a server, whatever it looks like
}

// serversOf are the servers of a file, those nearest to its root first. A file may also
// hold nothing but servers (a plugin's .mcp.json).
func serversOf(root map[string]any) (all []found) {
	for level := []place{{value: root}}; len(level) > 0; {
		var next []place
		for _, p := range level {
			if p.each || p.below && isServer(p.value) {
				all = append(all, found{p.key, p.value})
			} else {
				next = append(next, p.inside()...)
			}
		}
		level = next
	}
	for _, name := range slices.Sorted(maps.Keys(root)) {
		if isServer(root[name]) && !holds.MatchString(name) {
			all = append(all, found{name, root[name]})
		}
	}
	return all
}

func (p place) inside() (all []place) {
	each := p.below && members.MatchString(p.key)
	switch v := p.value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			all = append(all, place{key, v[key], p.below || holds.MatchString(key), each})
		}
	case []any:
		for i, one := range v {
			fields, _ := one.(map[string]any)
			name, named := fields["name"].(string)
			if !named {
				name = fmt.Sprintf("%s-%d", p.key, i+1)
			}
			if fields != nil {
				all = append(all, place{name, one, p.below, each})
			}
		}
	}
	return all
}

func isServer(v any) bool {
	fields, _ := v.(map[string]any)
	for _, key := range append([]string{"command"}, addresses...) {
		if _, there := fields[key]; there {
			return true
		}
	}
	return false
}

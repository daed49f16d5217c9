package plugin

import (
	"regexp"
	"strings"
)

// grants are what one principal may do. Everything else is refused.
type grants struct {
	all     bool            // * or ask:*
	tools   map[string]bool // as written: tool, server/tool or server/*
	servers map[string]bool // servers of which anything is granted
	methods map[string]bool // from method:NAME
	free    map[string]bool // tools that may be called without another look

	toolsHeader []string // X-Sallyport-Tools
	askHeader   []string // X-Sallyport-Ask; nil where it is absent
}

var (
	toolForm   = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)
	methodForm = regexp.MustCompile(`^[A-Za-z0-9_.$/-]{1,128}$`)
)

func parseGrants(m *mistakes, where, backend string, list []string) *grants {
	g := &grants{tools: map[string]bool{}, servers: map[string]bool{}, methods: map[string]bool{}}
	if backend != "hub" {
		g.free = g.tools // of a hub, the place decides too
	}
	m.when(len(list) == 0, `%stools is empty: list what may be called, or "*" for everything`, where)
	var named, asking []string
	for _, entry := range list {
		entry = strings.TrimSpace(entry)
		if strings.HasPrefix(entry, "method:") {
			addMethod(m, where, g, entry[len("method:"):])
			continue
		}
		grant := strings.TrimPrefix(entry, "ask:")
		if grant != entry {
			m.when(backend == "other", "%stools has %q: only backend: sandbox and hub can hold a call until the owner agrees", where, entry)
			asking = append(asking, grant)
		}
		addTool(m, where, backend, g, grant)
		if !contains(named, grant) {
			named = append(named, grant)
		}
	}
	if g.all {
		named = []string{"*"}
	}
	g.toolsHeader = []string{strings.Join(named, ",")}
	if len(asking) > 0 {
		g.askHeader = []string{strings.Join(asking, ",")}
	}
	return g
}

func addMethod(m *mistakes, where string, g *grants, name string) {
	m.when(!methodForm.MatchString(name) || name == "tools/call", "%stools has %q: give the full name of a method other than tools/call", where, "method:"+name)
	g.methods[name] = true
}

// addTool knows server/tool and server/* on a hub, and tool elsewhere.
func addTool(m *mistakes, where, backend string, g *grants, grant string) {
	if grant == "*" {
		g.all = true
		return
	}
	server, tool, slash := strings.Cut(grant, "/")
	switch {
	case slash != (backend == "hub"):
		m.when(true, "%stools has %q: grants are server/tool or server/* on backend: hub, and plain tool names elsewhere", where, grant)
	case !toolForm.MatchString(server) || (slash && tool != "*" && !toolForm.MatchString(tool)):
		m.when(true, "%stools has %q, which is not a grant", where, grant)
	}
	g.tools[grant] = true
	if slash {
		g.servers[server] = true
	}
}

func contains(list []string, s string) bool {
	for i := range list {
		if list[i] == s {
			return true
		}
	}
	return false
}

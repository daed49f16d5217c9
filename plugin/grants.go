package plugin

import (
	"net/url"
	"regexp"
	"strings"
)

// grant is one entry of tools, or of a token's claim.
type grant struct {
	written string // without ask: and method:
	ask     bool   // a call waits for the owner
	method  bool   // it names a method
	server  string // of a hub
	tool    string // decoded; empty: every tool of the server, or of all
}

// grants are what one principal may do. Everything else is refused.
type grants struct {
	list    []*grant
	all     bool            // * or ask:*
	tools   map[string]bool // decoded: tool, or server/tool on a hub
	whole   map[string]bool // servers of which every tool is granted
	servers map[string]bool // servers of which anything is granted
	methods map[string]bool // from method:NAME
	free    map[string]bool // tools that may be called without another look
	asking  *grants         // what waits for the owner; nil: nothing

	toolsHeader []string // X-Sallyport-Tools
	askHeader   []string // X-Sallyport-Ask; nil where it is absent
}

// A name has 1 to 128 characters; each other than these is percent-encoded
// (RFC 3986, section 2.1).
var (
	toolForm   = regexp.MustCompile(`^(?:[A-Za-z0-9_.-]|%[0-9A-Fa-f]{2}){1,128}$`)
	methodForm = regexp.MustCompile(`^[A-Za-z0-9_.$/-]{1,128}$`)
)

// parseGrants reads a setting's list.
func parseGrants(m *mistakes, where, backend string, list []string) *grants {
	m.when(len(list) == 0, `%stools is empty: list what may be called, or "*" for everything`, where)
	var read []*grant
	for _, entry := range list {
		g, wrong := parseGrant(backend, strings.TrimSpace(entry))
		m.when(wrong != "", "%stools has %q%s", where, entry, wrong)
		if wrong == "" {
			read = append(read, g)
		}
	}
	return compileGrants(backend, read)
}

// parseGrant returns what is wrong as the second half of a sentence.
func parseGrant(backend, entry string) (*grant, string) {
	if strings.HasPrefix(entry, "method:") {
		g := &grant{written: entry[len("method:"):], method: true, tool: entry[len("method:"):]}
		if !methodForm.MatchString(g.tool) || g.tool == "tools/call" {
			return nil, ": give the full name of a method other than tools/call"
		}
		return g, ""
	}
	g := &grant{written: strings.TrimPrefix(entry, "ask:")}
	g.ask = g.written != entry
	if g.ask && backend == "other" {
		return nil, ": only backend: sandbox and hub can hold a call until the owner agrees"
	}
	if g.written == "*" {
		return g, ""
	}
	server, tool, slash := strings.Cut(g.written, "/")
	if slash != (backend == "hub") {
		return nil, ": grants are server/tool or server/* on backend: hub, and plain tool names elsewhere " +
			"(a slash within a name is written %2F)"
	}
	if !slash {
		tool = server
	} else if !decodeName(server, &g.server) {
		return nil, notGrant
	}
	if !(slash && tool == "*") && !decodeName(tool, &g.tool) {
		return nil, notGrant
	}
	return g, ""
}

const notGrant = ", which is not a grant: other characters than A-Z a-z 0-9 _ . - are percent-encoded, such as " +
	"user%2Fupdate"

func decodeName(written string, into *string) bool {
	if !toolForm.MatchString(written) {
		return false
	}
	name, err := url.PathUnescape(written)
	*into = name
	return err == nil
}

// compileGrants makes a list quick to ask. The same grant with ask: beats the
// one without.
func compileGrants(backend string, list []*grant) *grants {
	g := indexGrants(backend, list)
	var asking []*grant
	for _, one := range list {
		if one.ask {
			asking = append(asking, one)
		}
	}
	g.toolsHeader = []string{strings.Join(writtenGrants(list), ",")}
	if g.all {
		g.toolsHeader = []string{"*"}
	}
	if len(asking) > 0 {
		g.asking = indexGrants(backend, asking)
		g.askHeader = []string{strings.Join(writtenGrants(asking), ",")}
	}
	if backend != "hub" { // there the place decides too
		g.free = map[string]bool{}
		for tool := range g.tools {
			g.free[tool] = g.asking == nil || !(g.asking.all || g.asking.tools[tool])
		}
	}
	return g
}

func indexGrants(backend string, list []*grant) *grants {
	g := &grants{list: list, tools: map[string]bool{}, whole: map[string]bool{}, servers: map[string]bool{},
		methods: map[string]bool{}}
	for _, one := range list {
		switch {
		case one.method:
			g.methods[one.tool] = true
			continue
		case one.server == "" && one.tool == "":
			g.all = true
			continue
		case backend != "hub":
			g.tools[one.tool] = true
			continue
		case one.tool == "":
			g.whole[one.server] = true
		default:
			g.tools[one.server+"/"+one.tool] = true
		}
		g.servers[one.server] = true
	}
	return g
}

// writtenGrants are the tools' grants as written, each once.
func writtenGrants(list []*grant) []string {
	var names []string
	for _, one := range list {
		if !one.method && !contains(names, one.written) {
			names = append(names, one.written)
		}
	}
	return names
}

// narrowed returns what both lists grant. Where either of them asks the owner, so
// does the result.
func narrowed(backend string, ceiling, wanted []*grant) *grants {
	var list []*grant
	for _, c := range ceiling {
		for _, w := range wanted {
			narrow := w
			if !covers(c, w) {
				narrow = c
			}
			if narrow == w || covers(w, c) {
				ask := (c.ask || w.ask) && !narrow.method
				list = append(list, &grant{narrow.written, ask, narrow.method, narrow.server, narrow.tool})
			}
		}
	}
	return compileGrants(backend, list)
}

// covers says whether a grants all that b does.
func covers(a, b *grant) bool {
	if !a.method && a.server == "" && a.tool == "" {
		return true
	}
	return a.method == b.method && a.server == b.server && (a.tool == "" || a.tool == b.tool)
}

func contains(list []string, s string) bool {
	for i := range list {
		if list[i] == s {
			return true
		}
	}
	return false
}

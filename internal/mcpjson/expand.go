package mcpjson

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/strictjson"
)

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// never holds variables that an entry may not name: the hub's own token must
// not reach a server, whatever the configuration says.
var never = []string{"MCP_AUTH_TOKEN"}

// expand replaces ${VAR} and ${VAR:-default}; a $ without a brace is text.
// As in Claude Code, the default counts only for a variable that is not set.
func expand(s string, lookup func(string) (string, bool)) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(s, "${")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		inner, after, closed := strings.Cut(rest, "}")
		name, fallback, optional := strings.Cut(inner, ":-")
		switch value, set := "", false; {
		case !closed:
			return "", fmt.Errorf("${ is not closed")
		case !variable.MatchString(name):
			return "", fmt.Errorf("${%s} is not ${NAME} or ${NAME:-default}", inner)
		case slices.Contains(never, name):
			return "", fmt.Errorf("${%s} is the hub's own secret and not for servers", name)
		default:
			if value, set = lookup(name); !set && !optional {
				return "", fmt.Errorf("the hub's environment has no %s", name)
			} else if !set {
				value = fallback
			}
			out.WriteString(value)
		}
		s = after
	}
}

// Expand returns a copy with the variables of those fields replaced that may
// have them: env of every type, command and args of stdio, url and headers of
// http and sse. A variable that is not set and has no default is an error; all
// such are in one error. Values never appear in it.
func (e *Entry) Expand(lookup func(string) (string, bool)) (*Entry, error) {
	r := &strictjson.Reader{}
	c := e.expand(r, lookup)
	if r.Err() == nil && c.URL != "" {
		checkRemote(r, c)
	}
	return c, r.Err()
}

func (e *Entry) expand(r *strictjson.Reader, lookup func(string) (string, bool)) *Entry {
	one := func(field, s string) string {
		s, err := expand(s, lookup)
		if err != nil {
			r.Fail(field, "%v", err)
		}
		return s
	}
	all := func(field string, pairs map[string]string) map[string]string {
		pairs = maps.Clone(pairs)
		for _, key := range slices.Sorted(maps.Keys(pairs)) {
			pairs[key] = one(field+"."+key, pairs[key])
		}
		return pairs
	}
	c := *e
	c.Env, c.Headers = all("env", e.Env), all("headers", e.Headers)
	c.Command, c.URL = one("command", e.Command), one("url", e.URL)
	c.Args = slices.Clone(e.Args)
	for i := range c.Args {
		c.Args[i] = one(fmt.Sprintf("args[%d]", i), c.Args[i])
	}
	return &c
}

// checkExpressions finds malformed expressions when the file is read, with
// every variable counted as set.
func checkExpressions(r *strictjson.Reader, e *Entry) {
	e.expand(r, func(string) (string, bool) { return "", true })
}

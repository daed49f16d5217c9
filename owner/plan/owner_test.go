package plan

import (
	"fmt"
	"strings"
	"testing"
)

// A grant that asks where nobody can answer, and sockets that others get at.
// The twin of each is the stack as it is: nothing is said.
func TestOwnersSocket(t *testing.T) {
	const box = `"environment": {"MCP_OWNER_SOCKET": %q}, "volumes": [{"type": "bind", "source": "/srv/run/sandboxd", "target": "/run/owner"},
		{"type": "bind", "source": %q, "target": "/workspace"}]`
	const good, work = "/run/owner/owner.sock", "/srv/workspace"
	asks := Plan{{Part: "token client", What: "call ask:run_command at /mcp-sandbox (edge)"}}
	for name, c := range map[string]struct {
		socket, workspace, hub string
		tokens                 Plan
		want                   string
	}{
		"twin":            {good, work, "", asks, ""},
		"asks nothing":    {"", work, "", Plan{{Part: "token client", What: "call run_command at /mcp-sandbox (edge)"}}, ""},
		"unanswered":      {"", work, "", asks, "token client ask for run_command at /mcp-sandbox (edge), which nobody can answer: sandboxd has no MCP_OWNER_SOCKET"},
		"the hub's":       {good, work, "", Plan{{Part: "token client", What: "call ask:a/b at /mcp-hub (edge)"}}, "which nobody can answer: hub has no"},
		"in the workdir":  {"/workspace/owner.sock", work, "", asks, "sandbox have its owner's socket replaced by a command: /workspace/owner.sock lies in /workspace"},
		"mounted twice":   {good, "/srv", "", asks, "sandbox connect to the owner's socket of sandboxd, /srv/run/sandboxd/owner.sock, by its mount of /srv"},
		"mounted by hub":  {good, work, "/srv/run", asks, "hub connect to the owner's socket of sandboxd, /srv/run/sandboxd/owner.sock, by its mount of /srv/run"},
		"a place besides": {good, work, "/srv/run/sandboxd2", asks, ""},
	} {
		hub := ""
		if c.hub != "" {
			hub = fmt.Sprintf(`"volumes": [{"type": "bind", "source": %q, "target": "/x", "read_only": true}]`, c.hub)
		}
		got, err := ownerPlan(fmt.Appendf(nil, `{"services": {"sandboxd": {`+box+`}, "hub": {%s}}}`, c.socket, c.workspace, hub), c.tokens, nil)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, g := range got {
			text += g.Part + " " + g.What + "\n"
		}
		if (text == "") != (c.want == "") || !strings.Contains(text, c.want) {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
}

// Which process is meant is told by where the routers lead, not by what somebody has
// called things: a hub at /tools whose tokens ask for "*" is no sandbox.
func TestAskingGoesByTheBackend(t *testing.T) {
	const routes = `http:
  routers:
    one: {rule: PathPrefix(/tools), middlewares: [tools-edge@file], service: a}
    two: {rule: PathPrefix(/hubbub), middlewares: [other], service: b}
  services:
    a: {loadBalancer: {servers: [{url: "http://hub:8000"}]}}
    b: {loadBalancer: {servers: [{url: "http://sandboxd:8000"}]}}
`
	tools := Plan{{Part: "token client", What: "call ask:* at /tools (tools-edge)"}}
	hubbub := Plan{{Part: "token client", What: "call ask:* at /hubbub (other)"}}
	const with, without = `{"environment": {"MCP_OWNER_SOCKET": "/run/owner/s"}}`, `{}`
	for name, c := range map[string]struct {
		sandbox, hub string
		tokens       Plan
		want         string
	}{
		"the hub cannot be answered":     {with, without, tools, "hub has no MCP_OWNER_SOCKET"},
		"twin":                           {without, with, tools, ""},
		"the sandbox cannot be answered": {without, with, hubbub, "sandboxd has no MCP_OWNER_SOCKET"},
		"its twin":                       {with, without, hubbub, ""},
	} {
		got, err := ownerPlan(fmt.Appendf(nil, `{"services": {"sandboxd": %s, "hub": %s}}`, c.sandbox, c.hub), c.tokens, backends([]byte(routes)))
		if text := fmt.Sprint(got); err != nil || (len(got) == 0) != (c.want == "") || !strings.Contains(text, c.want) {
			t.Errorf("%s: %v %s, want %q", name, err, text, c.want)
		}
	}
}

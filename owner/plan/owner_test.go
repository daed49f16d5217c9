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
		got, err := ownerPlan(fmt.Appendf(nil, `{"services": {"sandboxd": {`+box+`}, "hub": {%s}}}`, c.socket, c.workspace, hub), c.tokens)
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

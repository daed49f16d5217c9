package serve

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/internal/config"
	"github.com/sallyport-dev/sallyport/internal/desk"
	"github.com/sallyport-dev/sallyport/internal/egressrule"
	"github.com/sallyport-dev/sallyport/internal/egresswire"
	"github.com/sallyport-dev/sallyport/internal/identity"
	"github.com/sallyport-dev/sallyport/internal/keysocket"
	"github.com/sallyport-dev/sallyport/jail"
	"github.com/sallyport-dev/sallyport/sandboxd/network"
)

func (s *Settings) setEgress(v string) (err error) {
	var rules []string
	if err := config.List(&rules)(v); err != nil {
		return err
	}
	s.Egress, err = egressrule.ParseList(rules, egressrule.Parse)
	return err
}

// checkEgress reads the key while this process may still be root.
func (s *Settings) checkEgress(m *config.Mistakes) {
	if s.Network != jail.Allowlist {
		return
	}
	if s.Jail != jail.Full {
		m.Add("MCP_COMMAND_NETWORK=allowlist needs MCP_JAIL=full: a process group has no network of its own")
	}
	if s.EgressSocket == "" || s.EgressKeyFile == "" {
		m.Add("MCP_COMMAND_NETWORK=allowlist needs MCP_EGRESS_SOCKET and MCP_EGRESS_KEY_FILE: where egress listens, " +
			"and the key that it accepts (docs/egress.md)")
		return
	}
	for setting, path := range map[string]string{"MCP_EGRESS_SOCKET": s.EgressSocket,
		"MCP_EGRESS_KEY_FILE": s.EgressKeyFile} {
		if !filepath.IsAbs(path) {
			m.Add("%s %q must be an absolute path", setting, path)
		}
	}
	var err error
	if s.EgressKey, err = keysocket.ReadKey(s.EgressKeyFile); err != nil {
		m.Add("MCP_EGRESS_KEY_FILE: %v", err)
	}
}

// checkNetwork refuses a start where commands cannot have networks of their
// own. No filter of addresses or ports stands in for it.
func (s *Settings) checkNetwork() error {
	if s.Network != jail.Allowlist {
		return nil
	}
	if err := jail.CanOwnNetwork(); err != nil {
		return fmt.Errorf("MCP_COMMAND_NETWORK=allowlist gives each command a network namespace of its own, and that "+
			"cannot be had here: %w\n%s", err, waysOut)
	}
	return nil
}

const waysOut = `  Ways out:
  - in Docker: run with the seccomp profile deploy/seccomp.json (--security-opt seccomp=deploy/seccomp.json),
    as compose's profile egress does
  - on the machine: allow user namespaces (sysctl user.max_user_namespaces above 0;
    Debian: kernel.unprivileged_userns_clone=1;
    Ubuntu: kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for this program)
  - under systemd: RestrictNamespaces must allow user and net
  - or start with MCP_COMMAND_NETWORK=none: commands then have no network (docs/egress.md)`

// rules are what the principal's commands may ask egress for. Only egress decides.
func (s *Settings) rules(ctx context.Context) []string {
	id, ok := identity.From(ctx)
	if !ok || id.Principal == identity.Local {
		return s.Egress.Texts()
	}
	return id.Egress
}

// way is how the command that ctx's call starts reaches egress; nil where
// commands have another network.
func (s *Settings) way(ctx context.Context) *network.Way {
	if s.Network != jail.Allowlist {
		return nil
	}
	id, _ := identity.From(ctx)
	command := egresswire.Command{Principal: id.Principal, ID: "unknown", Rules: s.rules(ctx)}
	if t := desk.From(ctx); t != nil {
		command.ID, command.Session = t.ID, t.Caller().Session
	}
	if command.Principal == "" {
		command.Principal = identity.Local
	}
	return network.New(&egresswire.Client{Socket: s.EgressSocket, Key: s.EgressKey}, command)
}

// describeNetwork says in the descriptions of the tools that run commands what
// the principal's commands may reach.
func (s *Server) describeNetwork(ctx context.Context, tools []*mcp.Tool) {
	if s.set.Network != jail.Allowlist {
		return
	}
	for i, t := range tools {
		if t.Name == "run_command" || t.Name == "start_command" {
			described := *t // the original is shared by all principals
			described.Description += network.Describe(s.set.rules(ctx))
			tools[i] = &described
		}
	}
}

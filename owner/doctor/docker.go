package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/sallyport-dev/sallyport/owner/client"
	"github.com/sallyport-dev/sallyport/owner/plan"
)

// container is what "docker inspect" says that doctor reads.
type container struct {
	Name   string
	Config struct {
		User   string
		Env    []string
		Labels map[string]string
	}
	HostConfig struct {
		CapDrop, SecurityOpt []string
		Privileged           bool
		ReadonlyRootfs       bool
		PidsLimit            *int64
		Memory               int64
		NetworkMode          string
		PortBindings         map[string][]struct{ HostIP, HostPort string }
	}
	Mounts []mount
}

// mount is one mount of a container.
type mount struct {
	Type, Source, Destination string
	RW                        bool
}

// output runs a program of the owner's own and returns what it prints.
func (w *walk) output(name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(w.ctx, 15*time.Second)
	defer cancel()
	return exec.CommandContext(ctx, name, args...).Output()
}

// inspect returns the running containers that match a filter of docker ps.
func (w *walk) inspect(filter string) []container {
	ids, err := w.output("docker", "ps", "--quiet", "--filter", filter)
	if err != nil || len(ids) == 0 {
		return nil
	}
	raw, err := w.output("docker", append([]string{"inspect"}, strings.Fields(string(ids))...)...)
	if err != nil {
		return nil
	}
	var all []container
	if json.Unmarshal(raw, &all) != nil {
		return nil
	}
	return all
}

// containers looks at the container that publishes the backend's port, and at
// the engine that holds it.
func (w *walk) containers() {
	if w.opt.inside || !client.Loopback(w.backend) || !client.Loopback(w.base) {
		w.unseen("container", "only on the machine that runs Docker")
		return
	}
	found := w.inspect("publish=" + w.backend.Port())
	if len(found) == 0 {
		w.unseen("container", "no container publishes port "+w.backend.Port())
		return
	}
	for _, c := range found {
		w.restrictions(c)
	}
	w.engine()
}

func (w *walk) restrictions(c container) {
	for _, env := range c.Config.Env {
		if strings.HasPrefix(env, "MCP_AUTH_TOKEN=") {
			w.found("token", "token-in-environment", "container %s has MCP_AUTH_TOKEN in its environment", c.Name)
		}
	}
	if held := c.holds(checkout()); held != "" {
		w.found("workspace", "workspace-holds-installation", "%s: %s", c.Name, held)
	}
	if swapped := c.swaps(w.inspect("label=dev.sallyport.server")); swapped != "" {
		w.found("workspace", "server-mounts-workspace", "%s", swapped)
	}
	if missing := c.loose(); len(missing) > 0 {
		w.found("container", "container-loose", "%s: %s", c.Name, strings.Join(missing, "; "))
		return
	}
	w.ok("container", "%s: user %s, no capabilities, read-only root, limits, one published port on loopback", c.Name,
		c.Config.User)
}

// loose lists the restrictions of docker-compose.yml that a container lacks.
func (c container) loose() (missing []string) {
	lacks := func(bad bool, what string) {
		if bad {
			missing = append(missing, what)
		}
	}
	h := c.HostConfig
	user, _, _ := strings.Cut(c.Config.User, ":")
	lacks(user == "" || user == "0" || user == "root", "it runs as root (--user)")
	lacks(h.Privileged, "it is privileged")
	lacks(!slices.Contains(h.CapDrop, "ALL"), "it keeps capabilities (--cap-drop ALL)")
	lacks(!slices.ContainsFunc(h.SecurityOpt, func(s string) bool {
		return strings.HasPrefix(s, "no-new-privileges") && !strings.HasSuffix(s, "false")
	}),
		"it may gain privileges (--security-opt no-new-privileges)")
	lacks(!h.ReadonlyRootfs, "its root is writable (--read-only)")
	lacks(h.PidsLimit == nil || *h.PidsLimit <= 0, "it has no limit of processes (--pids-limit)")
	lacks(h.Memory == 0, "it has no limit of memory (--memory)")
	lacks(h.NetworkMode == "host", "it has the host's network")
	for port, bindings := range h.PortBindings {
		for _, b := range bindings {
			lacks(b.HostIP != "127.0.0.1" && b.HostIP != "::1",
				fmt.Sprintf("port %s is published on %q, not on 127.0.0.1", port, b.HostIP))
		}
	}
	for _, m := range c.Mounts {
		lacks(strings.HasSuffix(m.Source, "docker.sock"), "it holds Docker's socket")
		lacks(m.Source == "/", "it mounts the whole host")
	}
	return missing
}

// holds says which of what the owner runs or keeps secret lies in a directory
// that the container may change: its other mounts, and this checkout.
func (c container) holds(checkout string) string {
	for _, m := range c.Mounts {
		for _, other := range c.Mounts {
			if m.RW && other != m && plan.Within(m.Source, other.Source) {
				return fmt.Sprintf("%s, at %s, lies inside the workspace %s", other.Source, other.Destination, m.Source)
			}
		}
		if m.RW && checkout != "" && plan.Within(m.Source, checkout) {
			return fmt.Sprintf("this installation, %s, lies inside the workspace %s", checkout, m.Source)
		}
	}
	return ""
}

// swaps names a server's container that mounts something at, under or above
// what c may change.
func (c container) swaps(servers []container) string {
	for _, m := range c.Mounts {
		for _, s := range servers {
			for _, v := range s.Mounts {
				if m.RW && v.Type == "bind" && (plan.Within(m.Source, v.Source) || plan.Within(v.Source, m.Source)) {
					return fmt.Sprintf("%s mounts %s, and %s may change %s", s.Name, v.Source, c.Name, m.Source)
				}
			}
		}
	}
	return ""
}

func (w *walk) engine() {
	raw, err := w.output("docker", "version", "--format", "{{json .Server}}")
	var server struct {
		Version    string
		Components []struct{ Name, Version string }
	}
	if err != nil || json.Unmarshal(raw, &server) != nil {
		w.unseen("docker", "docker version does not answer")
		return
	}
	runc := ""
	for _, c := range server.Components {
		if c.Name == "runc" {
			runc = c.Version
		}
	}
	if !atLeast(server.Version, 27, 0, 0) || !atLeast(runc, 1, 2, 8) {
		w.found("docker", "docker-old", "Docker Engine %s, runc %s", server.Version, runc)
		return
	}
	w.ok("docker", "Docker Engine %s, runc %s", server.Version, runc)
}

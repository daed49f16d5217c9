package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sallyport-dev/sallyport/sandboxd/jail"
)

const jailPart = "jail"

// parts are the names under which the services of docker-compose.yml appear.
var parts = map[string]string{"traefik": "edge", "sandboxd": "sandbox", "hub": "hub", "dockerproxy": "dockerproxy"}

// harmless are the keys of a service that give it nothing. A key that is
// neither here nor read below is reported as it stands.
var harmless = strings.Fields(`build command entrypoint healthcheck logging restart depends_on stop_grace_period
	container_name hostname domainname shm_size init working_dir platform pull_policy profiles tmpfs ulimits labels attach`)

type service map[string]json.RawMessage

// take decodes a key and removes it. A missing key leaves v alone.
func (s service) take(key string, v any) error {
	raw, ok := s[key]
	if !ok {
		return nil
	}
	delete(s, key)
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

type network struct {
	Driver     string            `json:"driver"`
	DriverOpts map[string]string `json:"driver_opts"`
	Internal   bool              `json:"internal"`
	External   bool              `json:"external"`
}

func composePlan(raw []byte) (Plan, error) {
	var file struct {
		Services map[string]service `json:"services"`
		Networks map[string]network `json:"networks"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, fmt.Errorf("the rendered compose file: %w", err)
	}
	if len(file.Services) == 0 {
		return nil, fmt.Errorf("the rendered compose file names no service")
	}
	var plan Plan
	for name, s := range file.Services {
		c := container{part: parts[name], networks: file.Networks}
		if c.part == "" {
			c.part = "service " + name
		}
		if err := c.read(s); err != nil {
			return nil, fmt.Errorf("service %s: %w", name, err)
		}
		plan = append(plan, c.plan...)
	}
	return plan, nil
}

// container collects the grants of one service.
type container struct {
	part     string
	networks map[string]network
	plan     Plan
}

func (c *container) can(format string, args ...any) {
	c.plan = append(c.plan, Grant{Part: c.part, What: fmt.Sprintf(format, args...)})
}

func (c *container) limit(what, unlimited string, amount int64) {
	if amount <= 0 {
		c.can("%s", unlimited)
		return
	}
	c.plan = append(c.plan, Grant{c.part, what, amount})
}

func (c *container) read(s service) error {
	for _, step := range []func(service) error{c.identity, c.limits, c.network, c.mounts, c.settings} {
		if err := step(s); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s)) {
		value := string(s[key])
		if !slices.Contains(harmless, key) && !slices.Contains([]string{"null", "[]", "{}", "false", `""`}, value) {
			c.can("have %s = %s", key, value)
		}
	}
	return nil
}

func (c *container) identity(s service) error {
	var image, user string
	var privileged, readOnly bool
	var drop, opts []string
	for key, v := range map[string]any{"image": &image, "user": &user, "privileged": &privileged, "read_only": &readOnly, "cap_drop": &drop, "security_opt": &opts} {
		if err := s.take(key, v); err != nil {
			return err
		}
	}
	if image != "" {
		c.can("run the image %s", image)
	}
	if uid, _, _ := strings.Cut(user, ":"); uid == "" || uid == "0" || uid == "root" {
		c.can("act as root in its container")
	} else {
		c.can("act as user %s of this host on what is mounted", user)
	}
	if privileged {
		c.can("control this host: it is privileged")
	}
	if !readOnly {
		c.can("change its image's files")
	}
	if !slices.Contains(drop, "ALL") {
		c.can("use Docker's default capabilities")
	}
	gains := true
	for _, opt := range opts {
		switch opt {
		case "no-new-privileges", "no-new-privileges:true", "no-new-privileges=true":
			gains = false
		default:
			c.can("run with security_opt %s", opt)
		}
	}
	if gains {
		c.can("gain rights by setuid programs")
	}
	return nil
}

func (c *container) limits(s service) error {
	for _, l := range []struct{ key, what, unlimited string }{
		{"pids_limit", "run processes at once", "run any number of processes"},
		{"mem_limit", "use memory, in bytes", "use all memory"},
		{"cpus", "use processors, in thousandths", "use all processors"},
	} {
		var n json.Number
		if raw, ok := s[l.key]; ok {
			n = json.Number(strings.Trim(string(raw), `"`))
			delete(s, l.key)
		}
		amount, err := strconv.ParseFloat(string(n), 64)
		if err != nil && n != "" {
			return fmt.Errorf("%s: %w", l.key, err)
		}
		if l.key == "cpus" {
			amount *= 1000
		}
		c.limit(l.what, l.unlimited, int64(amount))
	}
	delete(s, "memswap_limit")
	return nil
}

func (c *container) network(s service) error {
	var mode string
	var in map[string]json.RawMessage
	var ports []struct {
		HostIP    string `json:"host_ip"`
		Published string `json:"published"`
		Target    int    `json:"target"`
		Protocol  string `json:"protocol"`
	}
	for key, v := range map[string]any{"network_mode": &mode, "networks": &in, "ports": &ports} {
		if err := s.take(key, v); err != nil {
			return err
		}
	}
	switch mode {
	case "":
	case "none":
	case "host":
		c.can("use this host's network, with every service on its loopback")
	default:
		c.can("use the network of %s", mode)
	}
	for name := range in {
		n := c.networks[name]
		off := func(opt string) bool { return n.DriverOpts["com.docker.network.bridge."+opt] == "false" }
		switch {
		case n.External || n.Driver != "" && n.Driver != "bridge":
			c.can("use the network %s, whose options are not in the compose file", name)
			continue
		case !n.Internal && !off("enable_ip_masquerade"):
			c.can("reach the Internet through network %s", name)
		}
		if !n.Internal {
			c.can("reach services that this host binds on all addresses, through the gateway of network %s", name)
		}
		if !off("enable_icc") {
			c.can("reach other containers on network %s", name)
		}
	}
	for _, p := range ports {
		from := p.HostIP
		if from == "" {
			from = "0.0.0.0, anyone in the network"
		}
		c.can("be reached at port %s of this host from %s (%s)", p.Published, from, p.Protocol)
	}
	return nil
}

func (c *container) mounts(s service) error {
	var volumes []struct {
		Type, Source, Target string
		ReadOnly             bool `json:"read_only"`
	}
	var secrets, configs []struct{ Source string }
	for key, v := range map[string]any{"volumes": &volumes, "secrets": &secrets, "configs": &configs} {
		if err := s.take(key, v); err != nil {
			return err
		}
	}
	for _, v := range volumes {
		verb := "change"
		if v.ReadOnly {
			verb = "read"
		}
		if strings.HasSuffix(v.Source, "docker.sock") { // read-only or not: a socket is spoken to
			c.can("control Docker, which is root on this host (%s)", v.Source)
			continue
		}
		c.can("%s %s (%s, at %s)", verb, v.Source, v.Type, v.Target)
	}
	for _, v := range append(secrets, configs...) {
		c.can("read the secret or config %s", v.Source)
	}
	return nil
}

// settings reads the environment: names, and the values that decide what the
// sandbox allows.
func (c *container) settings(s service) error {
	var env map[string]*string
	if err := s.take("environment", &env); err != nil {
		return err
	}
	value := func(name, unset string) string {
		if v := env[name]; v != nil && *v != "" {
			return *v
		}
		return unset
	}
	for name := range env {
		if name == "MCP_AUTH_TOKEN" || strings.HasSuffix(name, "_KEY") || strings.HasSuffix(name, "_SECRET") || strings.HasSuffix(name, "PASSWORD") {
			c.can("show %s to whoever may run docker inspect", name)
		}
	}
	if c.part != "sandbox" {
		return nil
	}
	for _, tool := range strings.Split(value("MCP_TOOLS", "run_command,read_file,write_file"), ",") {
		c.can("run the tool %s", strings.TrimSpace(tool))
	}
	if value("MCP_REQUIRE_EDGE", "false") != "true" {
		c.can("be used past the plugin, by whoever has its backend token")
	}
	policy := jail.Config{Mode: jail.Mode(value("MCP_JAIL", "full")), Network: jail.Network(value("MCP_COMMAND_NETWORK", "none")),
		InContainer: true, Writable: []string{"/workspace"}}
	if policy.Mode != jail.Full {
		c.can("run commands without the kernel's walls (MCP_JAIL=%s)", policy.Mode)
	}
	if policy.Network != jail.None {
		c.can("let commands use the container's network (MCP_COMMAND_NETWORK=%s)", policy.Network)
	}
	for _, line := range strings.Split(strings.TrimSpace(policy.String()), "\n") {
		c.plan = append(c.plan, Grant{Part: jailPart, What: line})
	}
	return nil
}

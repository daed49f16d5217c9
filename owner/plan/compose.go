package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sallyport-dev/sallyport/jail"
)

const jailPart = "jail"

// parts are the names under which the services of docker-compose.yml appear.
var parts = map[string]string{"login": "login", "traefik": "edge", "sandboxd": "sandbox", "hub": "hub",
	"dockerproxy": "dockerproxy", "egress": "egress"}

func partOf(service string) string { return cmp.Or(parts[service], "service "+service) }

// A service of the rendered compose file: what is read of it below.
type service struct {
	Image       string                     `json:"image"`
	User        string                     `json:"user"`
	Privileged  bool                       `json:"privileged"`
	ReadOnly    bool                       `json:"read_only"`
	CapDrop     []string                   `json:"cap_drop"`
	SecurityOpt []string                   `json:"security_opt"`
	PidsLimit   number                     `json:"pids_limit"`
	MemLimit    number                     `json:"mem_limit"`
	CPUs        number                     `json:"cpus"`
	NetworkMode string                     `json:"network_mode"`
	Networks    map[string]json.RawMessage `json:"networks"`
	Ports       []struct {
		HostIP    string `json:"host_ip"`
		Published string `json:"published"`
		Protocol  string `json:"protocol"`
	} `json:"ports"`
	Volumes []struct {
		Type     string `json:"type"`
		Source   string `json:"source"`
		Target   string `json:"target"`
		ReadOnly bool   `json:"read_only"`
	} `json:"volumes"`
	Secrets     []struct{ Source string } `json:"secrets"`
	Configs     []struct{ Source string } `json:"configs"`
	Environment map[string]*string        `json:"environment"`
}

// known are the keys that service reads, and those that give a container
// nothing. Every other key is reported as it stands.
var known = strings.Fields(`image user privileged read_only cap_drop security_opt pids_limit mem_limit cpus
	network_mode networks ports volumes secrets configs environment
	build command entrypoint healthcheck logging restart depends_on stop_grace_period container_name hostname
	domainname shm_size memswap_limit init working_dir platform pull_policy profiles tmpfs ulimits labels attach`)

// number is written as a number or as text.
type number float64

// UnmarshalJSON reads either form.
func (n *number) UnmarshalJSON(raw []byte) error {
	f, err := strconv.ParseFloat(strings.Trim(string(raw), `"`), 64)
	*n = number(f)
	return err
}

type network struct {
	Driver     string            `json:"driver"`
	DriverOpts map[string]string `json:"driver_opts"`
	Internal   bool              `json:"internal"`
	External   bool              `json:"external"`
}

func composePlan(raw []byte) (Plan, error) {
	var file struct {
		Services map[string]json.RawMessage `json:"services"`
		Networks map[string]network         `json:"networks"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, fmt.Errorf("the rendered compose file: %w", err)
	}
	if len(file.Services) == 0 {
		return nil, fmt.Errorf("the rendered compose file names no service")
	}
	var plan Plan
	var all []powers
	for _, name := range slices.Sorted(maps.Keys(file.Services)) {
		c := powers{part: partOf(name), networks: file.Networks}
		if err := c.read(file.Services[name]); err != nil {
			return nil, fmt.Errorf("service %s: %w", name, err)
		}
		plan = append(plan, c.plan...)
		all = append(all, c)
	}
	return append(plan, crossings(all)...), nil
}

// powers collects the grants of one service of the compose file.
type powers struct {
	service
	part     string
	networks map[string]network
	plan     Plan
}

func (c *powers) can(format string, args ...any) {
	c.plan = append(c.plan, Grant{Part: c.part, What: fmt.Sprintf(format, args...)})
}

// unless reports what a missing restriction allows.
func (c *powers) unless(held bool, what string) {
	if !held {
		c.can("%s", what)
	}
}

func (c *powers) limit(amount number, what, unlimited string) {
	if c.unless(amount > 0, unlimited); amount > 0 {
		c.plan = append(c.plan, Grant{c.part, what, int64(amount)})
	}
}

func (c *powers) read(raw []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &c.service); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		value := string(all[key])
		if !slices.Contains(known, key) && !slices.Contains([]string{"null", "[]", "{}", "false", `""`}, value) {
			c.can("have %s = %s", key, value)
		}
	}
	c.restrictions()
	c.reach()
	c.mounts()
	switch c.part {
	case "sandbox":
		c.sandbox()
	case "egress":
		c.egress()
	case "dockerproxy":
		if f := c.Environment["FORBIDDEN_SOURCES"]; f != nil && *f == "none" {
			c.can("mount the workspace and this installation into a server's container (FORBIDDEN_SOURCES=none)")
		}
	}
	return nil
}

func (c *powers) restrictions() {
	if c.Image != "" {
		c.can("run the image %s", c.Image)
	}
	if uid, _, _ := strings.Cut(c.User, ":"); uid == "" || uid == "0" || uid == "root" {
		c.can("act as root in its container")
	} else {
		c.can("act as user %s of this host on what is mounted", c.User)
	}
	c.unless(!c.Privileged, "control this host: it is privileged")
	c.unless(c.ReadOnly, "change its image's files")
	c.unless(slices.Contains(c.CapDrop, "ALL"), "use Docker's default capabilities")
	gains := true
	for _, opt := range c.SecurityOpt {
		if opt == "no-new-privileges" || opt == "no-new-privileges:true" || opt == "no-new-privileges=true" {
			gains = false
		} else {
			c.can("run with security_opt %s", opt)
		}
	}
	c.unless(!gains, "gain rights by setuid programs")
	c.limit(c.PidsLimit, "run processes at once", "run any number of processes")
	c.limit(c.MemLimit, "use memory, in bytes", "use all memory")
	c.limit(c.CPUs*1000, "use processors, in thousandths", "use all processors")
}

func (c *powers) reach() {
	switch c.NetworkMode {
	case "", "none":
	case "host":
		c.can("use this host's network, with every service on its loopback")
	default:
		c.can("use the network of %s", c.NetworkMode)
	}
	for name := range c.Networks {
		n := c.networks[name]
		off := func(opt string) bool { return n.DriverOpts["com.docker.network.bridge."+opt] == "false" }
		if n.External || n.Driver != "" && n.Driver != "bridge" {
			c.can("use the network %s, whose options are not in the compose file", name)
			continue
		}
		c.unless(n.Internal || off("enable_ip_masquerade"), "reach the Internet through network "+name)
		c.unless(n.Internal,
			"reach services that this host binds on all addresses, through the gateway of network "+name)
		c.unless(off("enable_icc"), "reach other containers on network "+name)
	}
	for _, p := range c.Ports {
		c.can("be reached at port %s of this host from %s (%s)", p.Published,
			cmp.Or(p.HostIP, "0.0.0.0, anyone in the network"), p.Protocol)
	}
}

func (c *powers) mounts() {
	for _, v := range c.Volumes {
		switch {
		case strings.HasSuffix(v.Source, "docker.sock"): // read-only or not: a socket is spoken to
			c.can("control Docker, which is root on this host (%s)", v.Source)
		case v.ReadOnly:
			c.can("read %s (%s, at %s)", v.Source, v.Type, v.Target)
		default:
			c.can("change %s (%s, at %s)", v.Source, v.Type, v.Target)
		}
	}
	for _, v := range append(c.Secrets, c.Configs...) {
		c.can("read the secret or config %s", v.Source)
	}
	for name := range c.Environment {
		if name == "MCP_AUTH_TOKEN" || strings.HasSuffix(name, "_KEY") || strings.HasSuffix(name, "_SECRET") ||
			strings.HasSuffix(name, "PASSWORD") {
			c.can("show %s to whoever may run docker inspect", name)
		}
	}
}

// egress lists the ceiling: each rule is a line, so that a new one is seen.
func (c *powers) egress() {
	if allow := c.Environment["EGRESS_ALLOW"]; allow != nil {
		for rule := range strings.SplitSeq(*allow, ",") {
			if rule = strings.TrimSpace(rule); rule != "" {
				c.can("connect commands to %s, at most", rule)
			}
		}
	}
}

// sandbox reads the settings that decide what commands may do.
func (c *powers) sandbox() {
	value := func(name, unset string) string {
		if v := c.Environment[name]; v != nil {
			return cmp.Or(*v, unset)
		}
		return unset
	}
	for _, tool := range strings.Split(value("MCP_TOOLS", "run_command,read_file,write_file"), ",") {
		c.can("run the tool %s", strings.TrimSpace(tool))
	}
	c.unless(value("MCP_REQUIRE_EDGE", "false") == "true", "be used past the plugin, by whoever has its backend token")
	policy := jail.Config{Mode: jail.Mode(value("MCP_JAIL", "full")),
		Network:     jail.Network(value("MCP_COMMAND_NETWORK", "none")),
		InContainer: true, Writable: []string{"/workspace"}}
	if policy.Mode != jail.Full {
		c.can("run commands without the kernel's restrictions (MCP_JAIL=%s)", policy.Mode)
	}
	switch policy.Network {
	case jail.None:
	case jail.Allowlist:
		c.can("let commands connect to what their token and egress allow (MCP_COMMAND_NETWORK=%s)", policy.Network)
	default:
		c.can("let commands use the container's network (MCP_COMMAND_NETWORK=%s)", policy.Network)
	}
	for _, line := range strings.Split(strings.TrimSpace(policy.String()), "\n") {
		c.plan = append(c.plan, Grant{Part: jailPart, What: line})
	}
}

// Package mcpjson reads mcp.json and says what each entry of it may do. The hub
// and the policy proxy share it, so both see the same servers. It starts nothing
// and reads no file.
package mcpjson

// The types of an entry.
const (
	Docker = "docker"
	Unix   = "unix"
	TCP    = "tcp"
	Stdio  = "stdio"
	HTTP   = "http"
	SSE    = "sse"
)

// Config is a parsed mcp.json. A name is either in Servers or in Broken.
type Config struct {
	Servers map[string]*Entry
	Broken  map[string]error // all mistakes of one entry, as strictjson.Mistakes
}

// Entry is one server of mcp.json. Variables are not expanded: see Expand.
type Entry struct {
	Name string
	Type string
	// Hash is the hex SHA-256 of the entry as written, whatever the order and
	// spacing of its keys.
	Hash string
	// Hub is false where the entry is not to appear in the aggregate.
	Hub       bool
	KeepAlive bool
	// Shared: one process or connection serves all clients; always so for docker.
	Shared bool
	// IdleMinutes until the server is put to sleep; 0: the hub's setting.
	IdleMinutes float64
	// TimeoutMS bounds one call, in milliseconds; 0: the hub's setting.
	TimeoutMS int64

	Command string   // stdio
	Args    []string // stdio
	// Env of a docker or stdio entry.
	Env     map[string]string
	Socket  string            // unix
	Host    string            // tcp
	Port    int               // tcp
	URL     string            // http, sse
	Headers map[string]string // http, sse

	Container DockerOptions // docker

	// Warnings are for the log and for the server's state.
	Warnings []string
}

// DockerOptions are the fields that only a docker entry has.
type DockerOptions struct {
	Image       string
	Pull        string // "never" or "missing"
	Command     []string
	Entrypoint  []string
	SecretsFrom string
	Volumes     []Volume
	Ports       []Port
	Network     string // "none" or the name of a Docker network
	Memory      int64  // bytes
	PidsLimit   int64
	NanoCPUs    int64 // billionths of a CPU
	ReadOnly    bool
	Tmpfs       map[string]string // path to mount options
	User        string            // "" leaves it to the image
}

// Volume is a bind mount, or a named volume where Source has no slash.
type Volume struct {
	Source, Target string
	ReadOnly       bool
}

// Named reports whether the source is a named volume.
func (v Volume) Named() bool { return v.Source[0] != '/' }

// Port publishes a container's port on an address of the host.
type Port struct {
	IP              string
	Host, Container int
	Proto           string // tcp, udp or sctp
}

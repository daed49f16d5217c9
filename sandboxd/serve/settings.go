package serve

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/config"
	"github.com/sallyport-dev/sallyport/internal/egressrule"
	"github.com/sallyport-dev/sallyport/internal/keysocket"
	"github.com/sallyport-dev/sallyport/jail"
	"github.com/sallyport-dev/sallyport/sandboxd/files"
	"github.com/sallyport-dev/sallyport/sandboxd/tool"
)

// Settings are all settings of the sandbox.
type Settings struct {
	config.HTTP
	Workspace   string       // existing directory, not /
	Tools       []string     // names, nil is the default set
	Protected   []string     // paths that write_file and edit_file leave alone, nil is the default list
	Jail        jail.Mode    // how strongly commands are held
	Network     jail.Network // what commands may reach
	SysVIPC     bool         // allow shared memory and queues that outlive a command
	MaxSessions int
	OutputLimit int // bytes kept of a command's stdout, and of its stderr
	Processes   int // of all commands together; 0 is the jail's default
	// where the persons' private directories are kept; "" is a new one in TMPDIR, in a container /private
	PrivateDir string
	config.Owner

	KeepModes []string // further files that nobody else may open, of the program that embeds this one

	EgressSocket, EgressKeyFile string
	EgressKey                   keysocket.Key   // what EgressKeyFile holds
	Egress                      egressrule.List // what commands may reach where no edge says so
}

// Table lists the settings, so that help texts and documents agree with what
// is parsed.
func (s *Settings) Table() config.Table {
	settings := append([]config.Setting{
		{Env: "MCP_WORKSPACE", Required: true, Set: config.Text(&s.Workspace),
			Help: "existing directory to work in, not /"},
	}, s.HTTP.Settings("127.0.0.1:18080", "/mcp-sandbox")...)
	return config.Table{
		Command: "sandboxd",
		Intro:   "Serves one directory to MCP clients, over HTTP+SSE at <base>/sse and streamable HTTP at <base>/mcp.",
		Settings: append(append(settings,
			config.Setting{Env: "MCP_TOOLS", Default: strings.Join(tool.Default, ","), Set: s.setTools,
				Help: "tools to offer: a list out of " + strings.Join(tool.All, ",") + "; or all"},
			config.Setting{Env: "MCP_PROTECTED_PATHS", Default: "default", Set: s.setProtected,
				Help: "what write_file and edit_file leave alone: a list such as default,deploy/*.yml; or none (see " +
					"docs/tools.md)"},
			config.Setting{Env: "MCP_JAIL", Default: string(jail.Full),
				Set:  config.OneOf(&s.Jail, jail.Full, jail.Group),
				Help: "full, or group: the downgrade for kernels before 6.12"},
			config.Setting{Env: "MCP_COMMAND_NETWORK", Default: string(jail.None),
				Set: config.OneOf(&s.Network, jail.None, jail.Container, jail.Allowlist),
				Help: "none; container: what the container's network lets commands reach; allowlist: listed hosts " +
					"through egress (see docs/egress.md)"},
			config.Setting{Env: "MCP_EGRESS_SOCKET", Set: config.Text(&s.EgressSocket),
				Help: "where egress listens, for MCP_COMMAND_NETWORK=allowlist"},
			config.Setting{Env: "MCP_EGRESS_KEY_FILE", Set: config.Text(&s.EgressKeyFile),
				Help: "the key that egress accepts: 64 hex digits, mode 0600"},
			config.Setting{Env: "MCP_EGRESS", Set: s.setEgress,
				Help: "hosts that commands may reach where no edge says so: a list such as " +
					"api.example.com,*.example.org:8443; or * for all that egress allows"},
			config.Setting{Env: "MCP_MAX_PROCESSES", Default: "0", Set: config.Number(&s.Processes, 0, 1<<20),
				Help: "processes and threads of all running commands together, in a container at most its pids limit " +
					"less 48; 0 is 128 and 32 for each core"},
			config.Setting{Env: "MCP_PRIVATE_DIR", Set: config.Text(&s.PrivateDir),
				Help: "where each principal's private directory (HOME, TMPDIR, caches) is kept; without it a new one " +
					"in TMPDIR for as long as the server runs, in a container /private"},
			config.Setting{Env: "MCP_SYSV_IPC", Default: "none", Set: s.setSysVIPC,
				Help: "none, or allow: System V memory, semaphores and queues and POSIX queues, for databases"},
			config.Setting{Env: "MCP_MAX_SESSIONS", Default: "256", Set: config.Number(&s.MaxSessions, 1, 100_000),
				Help: "sessions open at once; further ones get 503, unless somebody has an eighth more than the asker"},
			config.Setting{Env: "MCP_OUTPUT_LIMIT", Default: "262144", Set: config.Number(&s.OutputLimit, 1024, 1<<20),
				Help: "bytes kept of a command's stdout, and of its stderr"},
		), s.Owner.Settings()...),
	}
}

// Parse reads args and the environment. The error names every mistake; with -h
// it is flag.ErrHelp.
func Parse(args []string, env config.Lookup) (Settings, error) {
	var s Settings
	m, err := s.Table().Parse(args, env)
	if err != nil {
		return Settings{}, err
	}
	s.HTTP.Check(m)
	s.Owner.Check(m)
	if s.Workspace != "" {
		m.AddError(s.checkWorkspace())
	}
	s.checkEgress(m)
	s.checkOutside(m)
	return s, m.Err()
}

// checkOutside refuses a start in which a command could reach a secret or a
// record, or change what the owner or this server runs.
func (s *Settings) checkOutside(m *config.Mistakes) {
	s.outOfReach(m, "MCP_AUTH_TOKEN_FILE", s.TokenFile)
	s.outOfReach(m, "MCP_EGRESS_KEY_FILE", s.EgressKeyFile)
	s.outOfReach(m, "MCP_EGRESS_SOCKET", s.EgressSocket)
	s.outOfReach(m, "MCP_PRIVATE_DIR", s.PrivateDir)
	private := s.Owner.Private()
	for _, setting := range slices.Sorted(maps.Keys(private)) {
		s.outOfReach(m, setting, private[setting])
	}
	if s.Workspace == "" {
		return
	}
	if s.TokenFile != "" {
		m.AddError(config.BesideInstallationOf(s.Workspace, s.TokenFile))
	}
	m.AddError(s.checkProgram())
}

// outOfReach refuses a file that commands could read or replace.
func (s *Settings) outOfReach(m *config.Mistakes, setting, path string) {
	if path == "" || path == "-" {
		return
	}
	err := config.Outside(setting, path, s.jail("", s.Workspace).Grants)
	if err == nil {
		err = config.Apart(setting, path, s.writable()...)
	}
	m.AddError(err)
}

// writable are the directories in which all commands write.
func (s *Settings) writable() (dirs []string) {
	if s.Workspace != "" {
		dirs = append(dirs, s.Workspace)
	}
	if s.InContainer {
		dirs = append(dirs, "/tmp", "/dev/shm")
	}
	return dirs
}

// checkProgram refuses a workspace in which a command could replace this very
// program, or the checkout that it was built in.
func (s *Settings) checkProgram() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if err := config.Apart("the program", program, s.writable()...); err != nil {
		return err
	}
	checkout := filepath.Dir(filepath.Dir(program))
	if _, err := os.Stat(filepath.Join(checkout, "docker-compose.yml")); err != nil ||
		filepath.Base(filepath.Dir(program)) != "bin" {
		return nil
	}
	return config.Beside(s.Workspace, checkout)
}

// jail is the policy for commands that may write in dirs, and each person's
// in one of its own in private.
func (s *Settings) jail(private string, dirs ...string) jail.Config {
	c := jail.Config{Mode: s.Jail, Network: s.Network, InContainer: s.InContainer, Writable: dirs,
		Tasks: s.Processes, SysVIPC: s.SysVIPC, PrivateMounts: s.wantsMounts() && jail.CanPrivateMounts() == nil}
	if private != "" {
		c.Private = []string{private}
	}
	if s.OwnerSocket != "" {
		c.Keyed = append(c.Keyed, filepath.Clean(s.OwnerSocket))
	}
	if s.EgressSocket != "" {
		c.Keyed = append(c.Keyed, filepath.Clean(s.EgressSocket))
	}
	return c
}

// wantsMounts says whether commands should have mounts of their own. A container
// is a namespace already, and cannot mount in it.
func (s *Settings) wantsMounts() bool { return s.Jail == jail.Full && !s.InContainer }

// Reexec continues this program in a user namespace where commands want
// namespaces of their own; see jail.Reexec. It comes before anything is opened.
func (s *Settings) Reexec() (code int, ended bool) {
	if !s.wantsMounts() && (s.Network != jail.Allowlist || s.Jail != jail.Full) {
		return 0, false
	}
	return jail.Reexec()
}

// noMounts is what the start says where commands want mounts of their own and
// cannot have them; empty where all is well.
func (s *Settings) noMounts() string {
	err := jail.CanPrivateMounts()
	if !s.wantsMounts() || err == nil {
		return ""
	}
	return fmt.Sprintf("commands have no mounts of their own (%v): they can change modes, times and attributes of "+
		"this account's files "+
		"outside the workspace, and have no /tmp and no terminals (docs/jail.md)", err)
}

// openNetwork is what the start says where commands have a network.
func (s *Settings) openNetwork() string {
	if s.Network != jail.Container {
		return ""
	}
	return "MCP_COMMAND_NETWORK=container: commands reach whatever this machine or container reaches, services that " +
		"the host binds to 0.0.0.0 among it"
}

func (s *Settings) setSysVIPC(v string) error {
	if v != "none" && v != "allow" {
		return fmt.Errorf("%q is neither none nor allow", v)
	}
	s.SysVIPC = v == "allow"
	return nil
}

func (s *Settings) checkWorkspace() error {
	dir, err := filepath.Abs(s.Workspace)
	if err != nil {
		return fmt.Errorf("MCP_WORKSPACE %q: %w", s.Workspace, err)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("MCP_WORKSPACE %q must exist: %w", s.Workspace, err)
	}
	if info, err := os.Stat(real); err != nil || !info.IsDir() {
		return fmt.Errorf("MCP_WORKSPACE %q is not a directory", s.Workspace)
	}
	if real == "/" {
		return fmt.Errorf("MCP_WORKSPACE %q is /: choose the directory to work in", s.Workspace)
	}
	s.Workspace = real
	return nil
}

func (s *Settings) setProtected(v string) (err error) {
	s.Protected, err = files.ParseProtected(v)
	return err
}

func (s *Settings) setTools(v string) error {
	if v == "all" {
		s.Tools = tool.All
		return nil
	}
	if err := config.List(&s.Tools)(v); err != nil {
		return err
	}
	for _, name := range s.Tools {
		if !slices.Contains(tool.All, name) {
			return fmt.Errorf("there is no tool %q; the tools are %s, or all", name, strings.Join(tool.All, ", "))
		}
	}
	return nil
}

// Package tool is what a client can do: run commands and work on text files
// inside one workspace. Commands are held by package jail, file paths by
// os.Root; nothing here decides who may call (the request's identity does).
package tool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/jail"
	"github.com/sallyport-dev/sallyport/sandboxd/command"
	"github.com/sallyport-dev/sallyport/sandboxd/files"
	"github.com/sallyport-dev/sallyport/sandboxd/network"
)

// DefaultOutputLimit is how many bytes of each output stream are kept when
// Config.OutputLimit is zero.
const DefaultOutputLimit = 256 << 10

// Config is what the tools work on.
type Config struct {
	Root      *os.Root   // the workspace; the caller closes it, after Set.Close
	Jail      *jail.Jail // starts every command
	Workspace string     // the absolute path of the workspace as commands see it
	// where each person's private directory lies (command.Homes); the jail must be able to grant these
	Private string
	// how many processes and threads all commands may have, for the words about it; 0 says nothing
	Processes int
	Network   jail.Network // what the tools' descriptions say about the network
	// whether the jail refuses Unix sockets too, as it does outside a container
	NoUnixSockets bool

	OutputLimit int      // bytes kept of stdout and of stderr each, at least 1024; 0 is DefaultOutputLimit
	Enabled     []string // names out of All; nil is Default
	Protected   []string // see files.DefaultProtected, which nil stands for; an empty list protects nothing

	Principal func(context.Context) string                // who owns what it starts; nil: all calls are one principal's
	Granted   func(ctx context.Context, tool string) bool // what else the principal may call; nil grants everything
	Started   func(context.Context, *command.Command)     // told of each command that a call has started; may be nil
	// the way out of the command that a call starts, with jail.Allowlist; may be nil
	Way func(context.Context) *network.Way
}

// entry is one tool and how it is added to a server.
type entry struct {
	name string
	add  func(*Set, *mcp.Server)
}

var entries = []entry{
	{"run_command", (*Set).addRunCommand},
	{"read_file", (*Set).addReadFile},
	{"write_file", (*Set).addWriteFile},
	{"edit_file", (*Set).addEditFile},
	{"list_files", (*Set).addListFiles},
	{"search_files", (*Set).addSearchFiles},
	{"start_command", (*Set).addStartCommand},
	{"command_output", (*Set).addCommandOutput},
	{"stop_command", (*Set).addStopCommand},
}

// All are the names of every tool, Default those that are on unless the owner
// says otherwise.
var (
	All     = names(entries)
	Default = []string{"run_command", "read_file", "write_file"}
)

func names(list []entry) []string {
	var out []string
	for _, e := range list {
		out = append(out, e.name)
	}
	return out
}

// Set is the enabled tools over one workspace. It is safe for concurrent use.
type Set struct {
	cfg           Config
	files         *files.Workspace
	runner        *command.Runner
	progressEvery time.Duration
	stop          context.CancelFunc // of the sweep
	sweeping      sync.WaitGroup
}

// New checks cfg and begins to sweep away what a killed server left behind.
func New(cfg Config) (*Set, error) {
	if cfg.Root == nil || cfg.Jail == nil || cfg.Workspace == "" || cfg.Private == "" {
		return nil, errors.New("tool: Root, Jail, Workspace and Private are required")
	}
	if cfg.OutputLimit == 0 {
		cfg.OutputLimit = DefaultOutputLimit
	}
	if cfg.OutputLimit < 1024 {
		return nil, fmt.Errorf("an output limit of %d bytes is too small: 1024 is the least", cfg.OutputLimit)
	}
	if cfg.Enabled == nil {
		cfg.Enabled = Default
	}
	for _, name := range cfg.Enabled {
		if !slices.Contains(All, name) {
			return nil, fmt.Errorf("there is no tool %q: choose from %s, or all", name, strings.Join(All, ", "))
		}
	}
	if cfg.Protected == nil {
		cfg.Protected = files.DefaultProtected
	}
	s := &Set{cfg: cfg, files: files.New(cfg.Root, cfg.Workspace, cfg.Protected), progressEvery: progressEvery}
	homes, err := command.OpenHomes(cfg.Private)
	if err != nil {
		return nil, fmt.Errorf("the private directories of commands: %w", err)
	}
	s.runner = command.NewRunner(cfg.Jail, cfg.Network, s.files, homes, cfg.OutputLimit)
	s.runner.Way = cfg.Way
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	s.sweeping.Go(func() { s.files.Sweep(ctx) })
	return s, nil
}

// Names are the enabled tools, in the order of All.
func (s *Set) Names() []string {
	return slices.DeleteFunc(slices.Clone(All), func(name string) bool { return !s.on(name) })
}

func (s *Set) on(name string) bool { return slices.Contains(s.cfg.Enabled, name) }

// Register adds the enabled tools to server.
func (s *Set) Register(server *mcp.Server) {
	for _, e := range entries {
		if s.on(e.name) {
			e.add(s, server)
		}
	}
}

// Close ends every command; the jail's Close waits for them.
func (s *Set) Close() error {
	s.stop()
	s.sweeping.Wait()
	return errors.Join(s.runner.Close(), s.files.Close())
}

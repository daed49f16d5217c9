package serve

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"

	"github.com/sallyport-dev/sallyport/internal/cli"
	"github.com/sallyport-dev/sallyport/internal/desk"
	"github.com/sallyport-dev/sallyport/internal/httpd"
	"github.com/sallyport-dev/sallyport/internal/identity"
	"github.com/sallyport-dev/sallyport/internal/ownersock"
	"github.com/sallyport-dev/sallyport/internal/process"
	"github.com/sallyport-dev/sallyport/jail"
	"github.com/sallyport-dev/sallyport/sandboxd/command"
	"github.com/sallyport-dev/sallyport/sandboxd/tool"
)

// ErrJail marks a start that failed because commands could not be held.
var ErrJail error = &cli.Fault{Code: 3, Text: "commands cannot be held"}

// Main is "sandboxd": it serves until ctx ends. It returns 0 after an
// orderly end, 1 when serving failed, 2 for wrong settings and 3 when the jail
// cannot be built.
var Main = cli.Server("sandboxd", func(w io.Writer) { new(Settings).Table().Usage(w) },
	func(args []string) (Settings, error) { return Parse(args, os.LookupEnv) },
	func(ctx context.Context, set Settings, stdout io.Writer, log *slog.Logger) error {
		if code, ended := set.Reexec(); ended {
			return cli.Ended(code)
		}
		process.TuneMemory(process.Busy)
		return listen(ctx, set, stdout, log)
	})

func listen(ctx context.Context, set Settings, stdout io.Writer, log *slog.Logger) error {
	box, err := Open(set, stdout, log, nil)
	if err != nil {
		return err
	}
	defer box.Close()
	l, err := net.Listen("tcp", set.Addr)
	if err != nil {
		return fmt.Errorf("MCP_ADDR: %w", err)
	}
	log.Info("serving", "address", l.Addr().String(), "base", set.BasePath, "workspace", box.Workspace.Path, "version",
		process.Version)
	return httpd.Serve(ctx, l, box.Server.Handler(), log, box.Server.Close)
}

// A Box is a running sandbox without a listener.
type Box struct {
	Server    *Server
	Workspace jail.Workspace
	closers   []func() error
}

// Open builds the sandbox in the order that gives up rights as early as
// possible: what only root may open is opened first (before, if not nil, is
// called among it), then root is given up, then the workspace is opened and
// the jail tested. An error that the jail caused is ErrJail.
//
// Open may execute the program again and then does not return; see
// jail.Prepare.
func Open(set Settings, stdout io.Writer, log *slog.Logger, before func() error) (*Box, error) {
	set.Table().WarnUnknown(log, os.Environ())
	b := &Box{}
	if err := b.open(set, stdout, log, before); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

func (b *Box) open(set Settings, stdout io.Writer, log *slog.Logger, before func() error) (err error) {
	if b.Workspace, err = jail.Prepare(set.Workspace); err != nil {
		return fmt.Errorf("%w: %w", ErrJail, err)
	}
	office, err := ownersock.Open(set.Owner, ownersock.Process{Name: "sandboxd", Version: process.Version,
		Stdout:  stdout,
		Secrets: []string{set.Token}, UID: b.Workspace.UID, GID: b.Workspace.GID, Log: log})
	if err != nil {
		return err
	}
	b.onClose(office.Close)
	if before != nil {
		if err := before(); err != nil {
			return err
		}
	}
	if err := b.Workspace.DropRoot(); err != nil {
		return fmt.Errorf("%w: %w", ErrJail, err)
	}
	tools, err := b.openTools(set, log)
	if err != nil {
		return err
	}
	b.Server = New(set, tools, office.Desk, log)
	return office.Start()
}

func (b *Box) openTools(set Settings, log *slog.Logger) (*tool.Set, error) {
	root, err := os.OpenRoot(b.Workspace.Path)
	if err != nil {
		return nil, fmt.Errorf("MCP_WORKSPACE: %w", err)
	}
	b.onClose(root.Close)
	private, err := b.privateDir(set)
	if err != nil {
		return nil, fmt.Errorf("the private directories of commands: %w", err)
	}
	if err := set.checkNetwork(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrJail, err)
	}
	b.keepModes(set, log)
	j, err := jail.New(set.jail(private, b.Workspace.Path))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrJail, err)
	}
	b.onClose(j.Close)
	notices := append(append(b.Workspace.Notices, j.Notices()...), surprises(b.Workspace.Path, private)...)
	if set.InContainer {
		notices = append(notices, crowded("/tmp", "/dev/shm", private, b.Workspace.Path))
	}
	for _, notice := range append(notices, set.noMounts(), set.openNetwork()) {
		if notice != "" {
			log.Warn(notice)
		}
	}
	tools, err := tool.New(tool.Config{
		Root: root, Jail: j, Workspace: b.Workspace.Path, Private: private, Processes: j.Tasks(), Network: set.Network,
		OutputLimit: set.OutputLimit, Enabled: set.Tools, Protected: set.Protected, Way: set.way,
		NoUnixSockets: set.wantsMounts(),
		Started:       func(ctx context.Context, c *command.Command) { desk.Runs(ctx, command.Owners{Command: c}) },
		Principal:     func(ctx context.Context) string { id, _ := identity.From(ctx); return id.Principal },
		Granted: func(ctx context.Context, name string) bool {
			id, _ := identity.From(ctx)
			return id.Granted(name)
		},
	})
	if err != nil {
		return nil, err
	}
	b.onClose(tools.Close)
	return tools, nil
}

func (b *Box) onClose(f func() error) { b.closers = append(b.closers, f) }

// Close ends everything that runs, and removes the private directories unless
// they are kept.
func (b *Box) Close() {
	if b.Server != nil {
		b.Server.Close()
	}
	for i := len(b.closers) - 1; i >= 0; i-- {
		_ = b.closers[i]()
	}
}

// Package service serves other people's MCP servers, each confined as mcp.json
// describes. A message meets its parts in this order: handler.go (who may come
// in, and where to), internal/mcphttp (the transports), hub/lifecycle (may it
// pass, is the server awake), hub/mux (whose answer is it), and then
// hub/upstream, which moves bytes to the server. internal/jsonrpc reads
// messages, hub/pins remembers, hub/aggregate is the one path for all.
package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"

	"github.com/sallyport-dev/sallyport/hub/aggregate"
	"github.com/sallyport-dev/sallyport/hub/pins"
	"github.com/sallyport-dev/sallyport/internal/cli"
	"github.com/sallyport-dev/sallyport/internal/desk"
	"github.com/sallyport-dev/sallyport/internal/httpd"
	"github.com/sallyport-dev/sallyport/internal/mcphttp"
	"github.com/sallyport-dev/sallyport/internal/ownersock"
	"github.com/sallyport-dev/sallyport/internal/process"
	"github.com/sallyport-dev/sallyport/internal/session"
	"github.com/sallyport-dev/sallyport/jail"
)

// Hub serves the servers of one mcp.json.
type Hub struct {
	set   Settings
	log   *slog.Logger
	store *pins.Store
	front *mcphttp.Front
	all   *aggregate.Aggregate
	registry
	sessions *session.Table
	board    board
	desk     *desk.Desk
	office   *ownersock.Office // nil in tests
	stopping context.Context   // ends first: what runs is answered
	stop     context.CancelFunc
	ended    context.Context // ends then: streams and all other requests end
	end      context.CancelFunc
}

// Main is "sallyport-hub": it serves until ctx ends.
// It returns 0 after an orderly end, 1 when serving failed, 2 for
// wrong settings and 3 when the jail cannot be built.
var Main = cli.Server("sallyport-hub", func(w io.Writer) { new(Settings).Table().Usage(w) },
	func(args []string) (Settings, error) { return Parse(args, os.LookupEnv) },
	func(ctx context.Context, set Settings, _ io.Writer, log *slog.Logger) error {
		if set.wantsMounts() {
			if code, ended := jail.Reexec(); ended {
				return cli.Ended(code)
			}
			if err := jail.CanPrivateMounts(); err != nil {
				log.Warn("stdio servers have no mounts of their own (" + err.Error() + "): they can change " +
					"modes, times and attributes of this account's files outside their directories (docs/hub.md)")
			}
		}
		process.TuneMemory(200) // a call through the hub makes little garbage
		return listen(ctx, set, log)
	})

// ErrJail marks a start that failed because stdio servers could not be held.
var ErrJail error = &cli.Fault{Code: 3, Text: "stdio servers cannot be held"}

func listen(ctx context.Context, set Settings, log *slog.Logger) error {
	h, err := Open(set, log)
	if err != nil {
		return err
	}
	defer h.Close()
	l, err := net.Listen("tcp", set.Addr)
	if err != nil {
		return fmt.Errorf("MCP_ADDR: %w", err)
	}
	log.Info("serving", "address", l.Addr().String(), "base", set.BasePath, "servers", set.ServersFile, "version",
		process.Version)
	return httpd.Serve(ctx, l, h.Handler(), log, h.Close)
}

// Open builds the hub: as root it first gives up root for the owner of the
// state directory, then it reads mcp.json and watches it.
func Open(set Settings, log *slog.Logger) (*Hub, error) {
	if err := os.MkdirAll(set.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("MCP_STATE_DIR: %w", err)
	}
	space, err := jail.Prepare(set.StateDir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrJail, err)
	}
	office, err := ownersock.Open(set.Owner, ownersock.Process{Name: "sallyport-hub", Version: process.Version,
		Stdout:  os.Stdout,
		Secrets: set.secrets(), UID: space.UID, GID: space.GID, Log: log})
	if err != nil {
		return nil, err
	}
	if err := space.DropRoot(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrJail, errors.Join(err, office.Close()))
	}
	for _, notice := range space.Notices {
		log.Warn(notice)
	}
	set.StateDir = space.Path
	h, err := New(set, office.Desk, log)
	if err != nil {
		return nil, errors.Join(err, office.Close())
	}
	h.office = office
	if err := h.serveOwner(); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// New builds the hub with the rights it has, reads mcp.json and watches it.
func New(set Settings, d *desk.Desk, log *slog.Logger) (*Hub, error) {
	h := &Hub{set: set, log: log, desk: d, sessions: session.NewTable(set.MaxSessions)}
	h.room = newRoom(set.MaxTasks)
	d.ShowSessions(h.sessions)
	var err error
	if h.store, err = pins.Open(set.StateDir); err != nil {
		return nil, err
	}
	h.front, h.all = mcphttp.New(h.sessions, log), aggregate.New(h, d)
	h.stopping, h.stop = context.WithCancel(context.Background())
	h.ended, h.end = context.WithCancel(context.Background())
	return h, h.start()
}

// Close ends every session and server.
func (h *Hub) Close() {
	h.stop()
	h.registry.close() // first, so that every request that runs is answered
	h.sessions.EndAll()
	defer func() {
		if err := h.office.Close(); err != nil {
			h.log.Error("closing the audit", "error", err)
		}
	}()
	h.end()
}

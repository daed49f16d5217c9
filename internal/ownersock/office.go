package ownersock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"time"

	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/config"
	"github.com/sallyport-dev/sallyport/internal/desk"
	"github.com/sallyport-dev/sallyport/internal/keysocket"
)

// An Office is all that a process has for its owner: the audit, the desk, and
// the socket if there is one.
type Office struct {
	Desk   *desk.Desk
	server *Server
	audit  *audit.Log
	log    *slog.Logger
	stop   context.CancelFunc
	done   chan struct{}
}

// Process says whose office it is, and who will use it.
type Process struct {
	Name, Version string
	Stdout        io.Writer
	Secrets       []string // masked in records
	UID, GID      int      // who the process becomes after it has given up root; 0 for nobody else
	Log           *slog.Logger
}

// Open opens the audit and binds the socket, with the rights that the process
// has now. Nothing is served before Start.
func Open(set config.Owner, p Process) (*Office, error) {
	o := &Office{log: p.Log}
	var err error
	if set.OwnerSocket != "" {
		if o.server, err = Listen(set.OwnerSocket, set.OwnerKeyFile, p.UID, p.GID); err != nil {
			return nil, err
		}
		o.server.Process, o.server.Version = p.Name, p.Version
	}
	o.audit, err = audit.Open(audit.Options{
		File: set.AuditFile, Stdout: p.Stdout, Version: p.Version, Arguments: set.AuditArguments, Secrets: p.Secrets,
		AnchorDir: set.AnchorDir, UID: p.UID, GID: p.GID, Log: p.Log,
	})
	if err != nil {
		return nil, errors.Join(err, o.Close())
	}
	o.Desk = desk.New(o.audit, p.Log)
	if o.server == nil {
		o.Desk.Unattended()
	}
	return o, nil
}

// Handle adds an operation that only this process has.
func (o *Office) Handle(op string, h Handler) {
	if o.server == nil {
		return
	}
	if o.server.Extra == nil {
		o.server.Extra = map[string]Handler{}
	}
	o.server.Extra[op] = h
}

// Start serves the socket until Close, once the socket has refused a client
// without the key.
func (o *Office) Start() error {
	if o.server == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	o.stop, o.done = cancel, make(chan struct{})
	o.server.Desk = o.Desk
	path := o.server.listener.Addr().String()
	go func() {
		defer close(o.done)
		if err := o.server.Run(ctx); err != nil {
			o.log.Error("the owner's socket is no longer served", "error", err)
		}
	}()
	probe, end := context.WithTimeout(ctx, probeBound)
	defer end()
	// Where this account cannot come to the socket, its commands cannot either.
	if err := keysocket.RefusesStrangers(probe, path); err != nil && !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("MCP_OWNER_SOCKET: %w", err)
	}
	return nil
}

// probeBound is how long the socket has to refuse a stranger at the start.
const probeBound = 10 * time.Second

// Close ends the socket, then the audit.
func (o *Office) Close() error {
	if o == nil {
		return nil
	}
	switch {
	case o.stop != nil:
		o.stop()
		<-o.done
	case o.server != nil:
		_ = o.server.Close()
	}
	return o.audit.Close()
}

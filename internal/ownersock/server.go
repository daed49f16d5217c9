package ownersock

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/sallyport-dev/sallyport/internal/approval"
	"github.com/sallyport-dev/sallyport/internal/cli"
	"github.com/sallyport-dev/sallyport/internal/desk"
	"github.com/sallyport-dev/sallyport/internal/keysocket"
)

// A Handler answers an operation that not every process has.
type Handler func(Request) (any, error)

// A Server serves one process's desk.
type Server struct {
	Desk    *desk.Desk
	Process string
	Version string
	Extra   map[string]Handler // the hub's operations

	sum      keysocket.Sum
	listener *net.UnixListener
}

// ErrKeyFile is Listen's error for a key file that is no key: a wrong setting.
var ErrKeyFile error = &cli.Fault{Code: 2, Text: "MCP_OWNER_KEY_FILE"}

// Listen reads the key file once and binds the socket, mode 0600. It is called
// before root is given up; uid and gid, unless 0, get the socket.
func Listen(path, keyFile string, uid, gid int) (*Server, error) {
	key, err := keysocket.ReadKey(keyFile)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeyFile, err)
	}
	l, err := keysocket.Listen(path, 0o600)
	if err != nil {
		return nil, fmt.Errorf("MCP_OWNER_SOCKET: %w", err)
	}
	if uid != 0 && os.Geteuid() == 0 {
		if err := os.Chown(path, uid, gid); err != nil {
			return nil, fmt.Errorf("MCP_OWNER_SOCKET: %w", errors.Join(err, l.Close()))
		}
	}
	return &Server{sum: key.Sum(), listener: l}, nil
}

// Close stops listening, for a server that never ran.
func (s *Server) Close() error { return s.listener.Close() }

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	return (&keysocket.Server{Sum: s.sum, MaxConnections: 64, Serve: s.serve}).Run(ctx, s.listener)
}

func (s *Server) serve(ctx context.Context, c *net.UnixConn) {
	lines := bufio.NewScanner(c)
	lines.Buffer(nil, maxRequest)
	out := json.NewEncoder(c)
	for lines.Scan() {
		var r Request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			_ = out.Encode(Reply{Error: "this is no request: " + err.Error()})
			return
		}
		if r.Op == OpEvents {
			s.events(ctx, c, out)
			return
		}
		if out.Encode(s.reply(r)) != nil {
			return
		}
	}
}

func (s *Server) reply(r Request) Reply {
	value, err := s.answer(r)
	if err != nil {
		return Reply{Error: err.Error()}
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return Reply{Error: err.Error()}
	}
	return Reply{Result: raw}
}

func (s *Server) answer(r Request) (any, error) {
	d := s.Desk
	switch r.Op {
	case OpStatus:
		return s.status(), nil
	case OpRunning:
		return d.Running(), nil
	case OpOutput:
		return output(d, r)
	case OpStop:
		return nil, d.Stop(r.ID, r.Now)
	case OpPause:
		d.Pause(r.Principal, r.Reason)
		return nil, nil
	case OpResume:
		return nil, d.Resume(r.Principal)
	case OpPending:
		return d.Waiting(), nil
	case OpDecide:
		return nil, d.Decide(approval.Decision{ID: r.ID, Approve: r.Approve, Scope: r.For, Reason: r.Reason})
	case OpSessions:
		return d.Sessions(), nil
	case OpAnchor:
		return d.Audit().Checkpoint()
	}
	if h := s.Extra[r.Op]; h != nil {
		return h(r)
	}
	return nil, fmt.Errorf("%s has no operation %.40q", s.Process, r.Op)
}

func (s *Server) status() Status {
	d := s.Desk
	running := 0
	for _, e := range d.Running() {
		if e.State != "waiting" {
			running++
		}
	}
	return Status{Process: s.Process, Version: s.Version, Started: d.Started(), Waiting: len(d.Waiting()),
		Running:  running,
		Sessions: len(d.Sessions()), Paused: d.Paused(), Counters: d.Counters(), Audit: d.Audit() != nil}
}

func output(d *desk.Desk, r Request) (any, error) {
	most := r.Bytes
	if most <= 0 || most > 1<<20 {
		most = 64 << 10
	}
	stdout, stderr, runs, err := d.Output(r.ID, most)
	return Output{stdout, stderr, runs}, err
}

// events streams until the client closes or ctx ends.
func (s *Server) events(ctx context.Context, c *net.UnixConn, out *json.Encoder) {
	events, stop := s.Desk.Watch()
	defer stop()
	if events == nil {
		_ = out.Encode(Reply{Error: "too many watch at once: end some of them"})
		return
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = c.Read(make([]byte, 1)) // the client says no more, or closes
	}()
	_ = out.Encode(Reply{}) // listening
	for {
		select {
		case e := <-events:
			if out.Encode(Reply{Event: &e}) != nil {
				return
			}
		case <-gone:
			return
		case <-ctx.Done():
			return
		}
	}
}

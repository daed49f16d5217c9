// Package upstream carries JSON-RPC messages to and from one MCP server:
// a child process, a socket, a container or a remote address. It moves bytes
// and does not look into them further than its transport demands.
package upstream

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// MaxLine bounds one message from a server, in bytes. A longer one ends the
// connection: nothing shorter can be cut out of it.
const MaxLine = 16 << 20

// queueBytes bounds what waits for a server that does not read.
const queueBytes = 16 << 20

// stopGrace is how long a server may take to end after its input closed.
const stopGrace = 2 * time.Second

// lastWords is how long the output of a server may stay open after its end.
const lastWords = 500 * time.Millisecond

// Errors that a connection ends with. Each says what a human must know.
var (
	ErrClosed      = errors.New("closed by the hub")
	ErrLine        = errors.New("the server sent a line of more than 16 MiB")
	ErrRenewed     = errors.New("the connection was replaced")
	ErrUnreachable = errors.New("the remote server was not reached")
	ErrMemory      = errors.New("the kernel ended the server: the memory that all servers share ran out")
	ErrBacklog     = errors.New("the server does not read its input: 16 MiB wait")
)

// Wait is a refusal that passes by itself within seconds.
type Wait struct{ Reason string }

// Error implements error.
func (w *Wait) Error() string { return w.Reason }

// Outgoing is one message to a server. Header are the MCP headers of
// 2026-07-28 that a client sent with it; only http servers see them.
type Outgoing struct {
	Raw    []byte
	Header http.Header
}

// Conn is a connection to one server process or session. Send and Close may be
// called from anywhere, Receive from one goroutine.
type Conn interface {
	// Send hands over one message; it does not wait until the server read it.
	Send(m Outgoing) error
	// Receive returns the next line or message, or why there are no more.
	Receive() ([]byte, error)
	// Close ends the connection and waits until its processes are gone.
	Close() error
}

// Dial opens a connection. The context bounds the opening only.
type Dial func(ctx context.Context) (Conn, error)

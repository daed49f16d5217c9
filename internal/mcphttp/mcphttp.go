// Package mcphttp carries MCP messages between HTTP clients and a Target, as
// raw JSON-RPC: HTTP+SSE of 2024-11-05, streamable HTTP with sessions
// (2025-03-26 to 2025-11-25) and the stateless protocol of 2026-07-28. sandboxd
// and the hub both serve their clients through it, so one set of rules holds:
// an id comes back byte for byte, a newer stream takes over from an older one,
// a session answers only to the principal that opened it, and what is not
// passed on is refused with a message.
//
// A request meets the files in this order: front.go (which protocol),
// read.go (the body), headers.go (do the headers agree with it), session.go
// (whose session), outbox.go (the way back).
package mcphttp

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/sallyport-dev/sallyport/internal/identity"
	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
)

// Target is what a path serves: the sandbox, one server of the hub, or the
// aggregate.
type Target interface {
	// Open starts a session. push takes what belongs to none of its calls.
	Open(push Push) Session
	// Once takes one request of the stateless protocol.
	Once(ctx context.Context, req Request) (Cancel, error)
}

// Session is a client's session with a target. Its messages come one by one, in
// the order in which the client sent them.
type Session interface {
	// Handle takes one message and returns when it is on its way. With an error
	// nothing was or will be delivered to the request's sink.
	Handle(ctx context.Context, req Request) (Cancel, error)
	// Close ends the session and what runs for it.
	Close()
	// Gone reports that what it is a session with is no longer there.
	Gone() bool
}

// Request is one message of a client.
type Request struct {
	Message  *jsonrpc.Message
	Identity identity.Identity // who sent this very message
	Session  string            // the session's id; "" in the stateless protocol
	Sink     Sink              // for the answer; unused where none is wanted
	Header   http.Header       // the MCP headers of the stateless protocol
}

// Sink takes what answers one call. Deliver must not block. After a final
// delivery nothing follows; a nil raw with final ends the call without answer.
type Sink interface {
	Deliver(raw []byte, final bool)
}

// Cancel tells a target that the client no longer waits for an answer. After
// the call's end it does nothing.
type Cancel func()

// Push hands a client what belongs to none of its calls; near is the sink of
// the newest running call, or nil. It must not block.
type Push func(m *jsonrpc.Message, near Sink)

// Refusal is an error of a Target that says more than its text: when to try
// again (0: waiting alone does not help), and the "data" of the JSON-RPC error.
type Refusal interface {
	error
	RetryIn() time.Duration
	Data() json.RawMessage
}

package serve

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/internal/httpd"
	"github.com/sallyport-dev/sallyport/internal/identity"
	"github.com/sallyport-dev/sallyport/internal/session"
)

// message is what the transports know about one message of a client. It
// travels in the SDK's TokenInfo, the only way from an HTTP request to the
// handler of the message that it carried: the context that a handler gets is
// that of the request which opened the session.
type message struct {
	identity identity.Identity // of the request that carried the message
	session  string            // "" until one is open
	size     int64             // of the message, in bytes
	// stateless says that the message is of the protocol without sessions.
	stateless bool
	// gone ends when nobody can receive the answer any more.
	gone context.Context
	// stream is where the answer goes.
	stream *httpd.Stream
	// reserved is the place of a session that this message may open, or nil.
	reserved *session.Session
}

const messageKey = "sallyport"

func (m *message) tokenInfo() *auth.TokenInfo {
	return &auth.TokenInfo{UserID: m.identity.Principal, Extra: map[string]any{messageKey: m}}
}

// messageOf finds the message of a request, or nil.
func messageOf(req mcp.Request) *message {
	extra := req.GetExtra()
	if extra == nil || extra.TokenInfo == nil {
		return nil
	}
	m, _ := extra.TokenInfo.Extra[messageKey].(*message)
	return m
}

type messageKeyType struct{}

// withMessage and messageFrom carry a message in an HTTP request's context.
func withMessage(ctx context.Context, m *message) context.Context {
	return context.WithValue(ctx, messageKeyType{}, m)
}

func messageFrom(ctx context.Context) *message {
	m, _ := ctx.Value(messageKeyType{}).(*message)
	return m
}

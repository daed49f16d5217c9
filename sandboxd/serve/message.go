package serve

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/internal/identity"
)

// message is what is known about one message of a client beside its text. It
// travels in the SDK's TokenInfo, the only way to the handler of this very
// message: the context that a handler gets is its session's.
type message struct {
	identity identity.Identity // of the request that carried the message
	session  string            // "" in the stateless protocol
	size     int64             // of the message, in bytes
	// gone ends when nobody waits for the answer any more.
	gone context.Context
}

const messageKey = "sallyport"

func (m *message) extra() *mcp.RequestExtra {
	return &mcp.RequestExtra{TokenInfo: &auth.TokenInfo{UserID: m.identity.Principal,
		Extra: map[string]any{messageKey: m}}}
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

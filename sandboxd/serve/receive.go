package serve

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/internal/identity"
)

// recovering makes a panic one failed message: the SDK would let it end the
// process, and with it everybody's sessions.
func (s *Server) recovering(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				s.log.Error("panic", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError,
					Message: "internal error: this message made the server panic; the server goes on"}
			}
		}()
		return next(ctx, method, req)
	}
}

// identified puts the sender's identity into the context. A message without
// one cannot have come through the transports.
func (s *Server) identified(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		m := messageOf(req)
		if m == nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError,
				Message: "the sender of this message is not known"}
		}
		return next(identity.With(ctx, m.identity), method, req)
	}
}

// filtering shows each principal the tools that it may call, and no others.
func (s *Server) filtering(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, req)
		if list, ok := result.(*mcp.ListToolsResult); ok && err == nil {
			identity := messageOf(req).identity
			list.Tools = slices.DeleteFunc(slices.Clone(list.Tools),
				func(t *mcp.Tool) bool { return !identity.Granted(t.Name) })
			s.describeNetwork(ctx, list.Tools)
		}
		return result, err
	}
}

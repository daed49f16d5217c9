package serve

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/internal/callaudit"
)

// errStopping is why a call ends when the server does.
var errStopping = errors.New("the server is shutting down")

// maxHeld is how many bytes all calls under way may have as JSON. Decoded they
// take some times as much, for as long as they run; and over HTTP+SSE, where a
// message is accepted before its call ends, no limit on requests holds them.
const maxHeld = 64 << 20

// calling lets a tools/call through to its tool if the sender was granted it,
// ends it when nobody waits for it any more, and records what came of it.
func (s *Server) calling(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		call, ok := req.(*mcp.CallToolRequest)
		if !ok {
			return next(ctx, method, req)
		}
		m, start := messageOf(req), time.Now()
		record := callaudit.Record{
			Time: start.UTC(), Principal: m.identity.Principal, Session: m.session, Tool: short(call.Params.Name),
			Verdict: "panic", InputBytes: len(call.Params.Arguments),
		}
		defer func() { s.record(record, start) }()
		result, err := s.decide(m, call.Params.Name)
		if result == nil && err == nil {
			result, err = s.run(ctx, m, func(ctx context.Context) (mcp.Result, error) { return next(ctx, method, req) })
			record.Verdict = verdict(m, result, err)
		} else if record.Verdict = "refused"; result != nil {
			record.Verdict = "ask"
		}
		record.ResultBytes = textBytes(result)
		return result, err
	}
}

// decide refuses a call, or returns neither a result nor an error.
func (s *Server) decide(m *message, name string) (mcp.Result, error) {
	switch {
	case !m.identity.Granted(name):
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams,
			Message: fmt.Sprintf("tool %q is not granted to %s", short(name), m.identity.Principal)}
	case m.identity.Asks(name):
		return failure(fmt.Sprintf("%s may call %s only with the owner's approval, and approvals are not built yet: nothing was run. The owner can grant the tool without \"ask:\".",
			m.identity.Principal, name)), nil
	}
	if err := s.audit.Ready(); err != nil {
		s.log.Error("the audit file cannot be written, so no tool runs", "error", err)
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError,
			Message: "this call cannot be recorded in the audit file, so it was not run; the owner has to look after that file"}
	}
	return nil, nil
}

// run calls the tool with a context that ends with the client or the server.
// The SDK's own context ends with neither.
func (s *Server) run(ctx context.Context, m *message, tool func(context.Context) (mcp.Result, error)) (mcp.Result, error) {
	s.running.Add(1)
	defer s.running.Add(-1)
	defer s.held.Add(-m.size)
	if s.held.Add(m.size) > s.maxHeld {
		return failure("this call was not run: the calls under way are too large together; wait until some have ended, or send less at once"), nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(m.gone, func() { cancel(context.Cause(m.gone)) })()
	defer context.AfterFunc(s.stopping, func() { cancel(errStopping) })()
	return tool(ctx)
}

// short bounds what a client can make us record: no tool has a longer name.
func short(name string) string {
	if len(name) > 128 {
		return strings.ToValidUTF8(name[:128], "") + "..."
	}
	return name
}

func failure(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

func verdict(m *message, result mcp.Result, err error) string {
	r, ok := result.(*mcp.CallToolResult)
	switch {
	case m.gone.Err() != nil:
		return "canceled"
	case err != nil || ok && r.IsError:
		return "error"
	}
	return "ok"
}

func textBytes(result mcp.Result) (n int) {
	if r, ok := result.(*mcp.CallToolResult); ok && r != nil {
		for _, c := range r.Content {
			if text, ok := c.(*mcp.TextContent); ok {
				n += len(text.Text)
			}
		}
	}
	return n
}

// record writes what came of a call to the audit file and the log, neither of
// which ever holds an argument.
func (s *Server) record(r callaudit.Record, start time.Time) {
	r.DurationMS = time.Since(start).Milliseconds()
	s.log.Info("call", "principal", r.Principal, "tool", r.Tool, "verdict", r.Verdict, "ms", r.DurationMS)
	if err := s.audit.Write(r); err != nil {
		s.log.Error("writing the audit file", "error", err)
	}
}

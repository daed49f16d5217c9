package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/desk"
	idle "github.com/sallyport-dev/sallyport/internal/session"
	"github.com/sallyport-dev/sallyport/sandboxd/tool"
)

// errStopping is why a call ends when the server does.
var errStopping = errors.New("the server is shutting down")

// maxHeld is how many bytes all calls under way may have as JSON. Decoded they
// take some times as much, for as long as they run; and over HTTP+SSE, where a
// message is accepted before its call ends, no limit on requests holds them.
const maxHeld = 64 << 20

// calling lets a tools/call through to its tool if it is admitted, ends it when
// nobody waits for it any more, and records what came of it.
func (s *Server) calling(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		call, ok := req.(*mcp.CallToolRequest)
		if !ok {
			return next(ctx, method, req)
		}
		m := messageOf(req)
		return s.run(ctx, m, func(ctx context.Context) (result mcp.Result, err error) {
			ticket, err := s.admit(ctx, m, call)
			if err != nil {
				return refused(m, err)
			}
			ending := "panic"
			defer func() { ticket.End(ending, textBytes(result)) }()
			result, err = next(ticket.Context(), method, req)
			ending = verdict(m, result, err)
			if ticket.Stopped() {
				return s.stopped(m, ticket), nil
			}
			return result, err
		})
	}
}

// admit is the one place that decides whether a call of a tool may run, and
// records that it begins or that it was refused. Without an error the caller
// must end the ticket.
func (s *Server) admit(ctx context.Context, m *message, req *mcp.CallToolRequest) (*desk.Ticket, error) {
	name := req.Params.Name
	call := desk.Call{Ask: m.identity.Asks(name), Call: audit.Call{
		Request: m.identity.Request, Principal: m.identity.Principal, Session: idle.Name(m.session), Tool: short(name),
		Arguments: req.Params.Arguments,
	}}
	if !m.identity.Granted(name) {
		s.desk.Refuse(call.Call, "not_granted")
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams,
			Message: fmt.Sprintf("tool %q is not granted to %s", short(name), m.identity.Principal)}
	}
	if call.Ask && tool.Writes(name) {
		call.File = func() (f desk.File, err error) {
			f.Digest, f.Preview, err = s.tools.Change(name, req.Params.Arguments)
			return f, err
		}
	}
	if token := req.Params.GetProgressToken(); token != nil {
		call.Progress = func(seconds int) {
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: token, Progress: desk.WaitingProgress(seconds),
				Message: fmt.Sprintf("waiting for the owner's approval for %d s", seconds),
			})
		}
	}
	return s.desk.Admit(ctx, call)
}

// refused turns a refusal into what the client gets: a tool error,
// or a protocol error where the fault is not the call's.
func refused(m *message, err error) (mcp.Result, error) {
	var r *desk.Refusal
	if !errors.As(err, &r) {
		return nil, err
	}
	if r.Verdict == "unrecordable" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: r.Text}
	}
	return failure(m, r.Text), nil
}

// stopped is the result of a call that the owner has stopped: the words, and
// what a command had written until then.
func (s *Server) stopped(m *message, t *desk.Ticket) mcp.Result {
	text := "The owner stopped this call; what it had started was ended. Do not repeat it by yourself; ask the user."
	if stdout, stderr, _, err := s.desk.Output(t.ID, 8<<10); err == nil {
		text += fmt.Sprintf("\nThe last of stdout:\n%s\nThe last of stderr:\n%s", stdout, stderr)
	}
	return failure(m, text)
}

// awaited counts a call until it is left, which is when its answer is on its way or
// nobody waits for it any more.
func (s *Server) awaited(cancel context.CancelFunc) (leave context.CancelFunc) {
	s.running.Add(1)
	return sync.OnceFunc(func() {
		cancel()
		s.running.Add(-1)
	})
}

// run calls the tool with a context that ends with the client or the server.
// The SDK's own context ends with neither.
func (s *Server) run(ctx context.Context, m *message, call func(context.Context) (mcp.Result, error)) (mcp.Result,
	error) {
	s.running.Add(1)
	defer s.running.Add(-1)
	defer s.held.Add(-m.size)
	if s.held.Add(m.size) > s.maxHeld {
		return failure(m, "this call was not run: the calls under way are too large together; wait until some "+
			"have ended, or send less at once"), nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(m.gone, func() { cancel(context.Cause(m.gone)) })()
	defer context.AfterFunc(s.stopping, func() { cancel(errStopping) })()
	return call(ctx)
}

// short bounds what a client can make us record: no tool has a longer name.
func short(name string) string {
	if len(name) > 128 {
		return strings.ToValidUTF8(name[:128], "") + "..."
	}
	return name
}

// failure is a tool error that no tool has made. The stateless protocol demands a type
// of each result, which the SDK sets for those of tools only, and otherwise lets
// nobody set but by decoding.
func failure(m *message, text string) *mcp.CallToolResult {
	r := &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}
	if m.session == "" {
		if raw, err := json.Marshal(r); err == nil {
			_ = json.Unmarshal(append([]byte(`{"resultType":"complete",`), raw[1:]...), r)
		}
	}
	return r
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

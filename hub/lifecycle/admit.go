package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/desk"
	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
	"github.com/sallyport-dev/sallyport/internal/mcphttp"
	"github.com/sallyport-dev/sallyport/internal/session"
)

// pass sends an admitted request on its way; see Session.Handle for its errors.
type pass func(ctx context.Context, req mcphttp.Request) (mcphttp.Cancel, error)

// admit is the one place that decides whether a call of a tool may go to its
// server, and records that it begins or that it was refused. Other requests
// just pass. A call that asks for the owner's approval waits on a goroutine of
// its own, so that its session goes on meanwhile.
//
// pass is called before admit returns unless the call asks.
func (s *Server) admit(ctx context.Context, req mcphttp.Request, pass pass) (mcphttp.Cancel, error) {
	m := req.Message
	if m.Method != "tools/call" {
		return pass(ctx, req)
	}
	call := s.describe(req)
	if fault := s.refuse(req); fault != nil {
		s.cfg.Desk.Refuse(call.Call, "not_granted")
		req.Sink.Deliver(fault, true)
		return nil, nil
	}
	if !call.Ask {
		return s.run(ctx, req, call, pass)
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		if err := s.await(ctx, req, call, pass); err != nil {
			req.Sink.Deliver(unavailable(m.ID(), err), true)
		}
	}()
	return mcphttp.Cancel(cancel), nil
}

// asks reports whether req is a call that waits for the owner.
func (s *Server) asks(req mcphttp.Request) bool {
	m := req.Message
	return m.Method == "tools/call" && req.Identity.AsksOn(s.cfg.Name, m.Text(m.Param("name")))
}

// describe is what the desk is told of a call.
func (s *Server) describe(req mcphttp.Request) desk.Call {
	m := req.Message
	tool := m.Text(m.Param("name"))
	c := desk.Call{Ask: s.asks(req), Call: audit.Call{
		Request: req.Identity.Request, Principal: req.Identity.Principal, Session: session.Name(req.Session),
		Server: s.cfg.Name, Tool: tool, Arguments: m.Bytes(m.Param("arguments")),
	}}
	if token := m.Param("_meta", "progressToken"); token.Present() {
		c.Progress = func(seconds int) {
			params := fmt.Appendf(nil,
				`{"progressToken":%s,"progress":%.6f,"message":"waiting for the owner's approval for %d s"}`,
				m.Bytes(token), desk.WaitingProgress(seconds), seconds)
			req.Sink.Deliver(jsonrpc.Notification("notifications/progress", params), false)
		}
	}
	return c
}

// run admits a call and passes it on.
func (s *Server) run(ctx context.Context, req mcphttp.Request, call desk.Call, pass pass) (mcphttp.Cancel, error) {
	ticket, err := s.cfg.Desk.Admit(ctx, call)
	var refusal *desk.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Verdict == "canceled":
		req.Sink.Deliver(nil, true)
		return nil, nil
	case err != nil:
		req.Sink.Deliver(inWords(req, err.Error()), true)
		return nil, nil
	}
	sink := &ticketed{Sink: req.Sink, ticket: ticket}
	client := req
	req.Sink = sink
	cancel, err := pass(ctx, req)
	if err != nil {
		ticket.End("error", 0)
		return nil, err
	}
	context.AfterFunc(ticket.Context(), func() {
		if !ticket.Stopped() {
			return
		}
		sink.Deliver(inWords(client, "The owner stopped this call. Do not repeat it by yourself; ask the user."), true)
		if cancel != nil {
			cancel()
		}
	})
	return cancel, nil
}

// await is run for a call that waits: it returns at the call's end or when its
// client takes it back, which cancels it.
func (s *Server) await(ctx context.Context, req mcphttp.Request, call desk.Call, pass pass) error {
	done := make(chan struct{})
	req.Sink = &noting{Sink: req.Sink, ended: sync.OnceFunc(func() { close(done) })}
	cancel, err := s.run(ctx, req, call, pass)
	if err != nil {
		return err
	}
	select {
	case <-done:
	case <-ctx.Done():
		if cancel != nil {
			cancel()
		}
	}
	return nil
}

// ticketed ends a call's ticket with its answer. After an answer of the hub's
// own the server's is dropped.
type ticketed struct {
	mcphttp.Sink
	ticket *desk.Ticket
	mu     sync.Mutex
	final  bool
}

// Deliver implements mcphttp.Sink.
func (t *ticketed) Deliver(raw []byte, final bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.final {
		return
	}
	if t.final = final; final {
		t.ticket.End(verdict(raw), len(raw))
	}
	t.Sink.Deliver(raw, final)
}

// noting is told of the end of a call.
type noting struct {
	mcphttp.Sink
	ended func()
}

// Deliver implements mcphttp.Sink.
func (n *noting) Deliver(raw []byte, final bool) {
	n.Sink.Deliver(raw, final)
	if final {
		n.ended()
	}
}

// verdict is what the record says of an answer.
func verdict(raw []byte) string {
	if raw == nil {
		return "canceled"
	}
	m, err := jsonrpc.Parse(raw)
	if err != nil || m.IsError() || string(m.Bytes(m.Find(m.Result(), "isError"))) == "true" {
		return "error"
	}
	return "ok"
}

// inWords is a tool result that a model can act on.
func inWords(req mcphttp.Request, text string) []byte {
	result := map[string]any{"isError": true, "content": []map[string]string{{"type": "text", "text": text}}}
	if req.Header != nil { // the stateless protocol
		result["resultType"] = "complete"
	}
	raw, _ := json.Marshal(result)
	return jsonrpc.Answer(req.Message.ID(), raw)
}

// unavailable answers for a server that cannot serve now.
func unavailable(id []byte, err error) []byte {
	var r mcphttp.Refusal
	if errors.As(err, &r) {
		return jsonrpc.FaultData(id, jsonrpc.Unavailable, err.Error(), r.Data())
	}
	return jsonrpc.Fault(id, jsonrpc.Unavailable, "%v", err)
}

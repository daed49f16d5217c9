// Package aggregate is one MCP server with six tools in place of all servers
// with all their tools, for clients whose context is small.
package aggregate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/sallyport-dev/sallyport/hub/lifecycle"
	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/desk"
	"github.com/sallyport-dev/sallyport/internal/identity"
	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
	"github.com/sallyport-dev/sallyport/internal/mcphttp"
	"github.com/sallyport-dev/sallyport/internal/process"
	idle "github.com/sallyport-dev/sallyport/internal/session"
)

// Catalog knows the servers in force.
type Catalog interface {
	// Visible are the servers of the aggregate that id has a part in, by name.
	Visible(id identity.Identity) []*lifecycle.Server
	// Disabled are the entries with mistakes that id has a part in, and which
	// those are.
	Disabled(id identity.Identity) map[string]error
}

// Aggregate implements mcphttp.Target.
type Aggregate struct {
	catalog Catalog
	desk    *desk.Desk

	mu       sync.Mutex
	sessions map[key]*lifecycle.Session
}

// key: principals do not share a process.
type key struct {
	server    *lifecycle.Server
	principal string
}

// New makes the aggregate of a catalog.
func New(catalog Catalog, d *desk.Desk) *Aggregate {
	return &Aggregate{catalog: catalog, desk: d, sessions: map[key]*lifecycle.Session{}}
}

// Open implements mcphttp.Target.
func (a *Aggregate) Open(mcphttp.Push) mcphttp.Session { return &clientSession{Aggregate: a} }

// clientSession knows a client's calls, which it may cancel; what they run in
// belongs to the principal.
type clientSession struct {
	*Aggregate
	running sync.Map // *running to nothing
}

// running is a call under way.
type running struct {
	id     string
	cancel context.CancelFunc
}

func (s *clientSession) Handle(ctx context.Context, req mcphttp.Request) (mcphttp.Cancel, error) {
	m := req.Message
	if m.Method == "notifications/cancelled" {
		id := string(m.Bytes(m.Param("requestId")))
		s.running.Range(func(r, _ any) bool {
			if r.(*running).id == id {
				r.(*running).cancel()
			}
			return true
		})
	}
	if !m.IsRequest() {
		return nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &running{string(m.ID()), cancel} // clients may use an id twice
	end := func() { s.running.Delete(r); cancel() }
	s.running.Store(r, nil)
	req.Sink = ending{req.Sink, end}
	stop, err := s.handle(ctx, req, false)
	if err != nil {
		end()
	} else if stop != nil {
		context.AfterFunc(ctx, stop)
	}
	return mcphttp.Cancel(cancel), err
}

func (s *clientSession) Close()     {}
func (s *clientSession) Gone() bool { return false }

// ending is told of the end of a call.
type ending struct {
	mcphttp.Sink
	end func()
}

func (e ending) Deliver(raw []byte, final bool) {
	if e.Sink.Deliver(raw, final); final {
		e.end()
	}
}

// Once implements mcphttp.Target.
func (a *Aggregate) Once(ctx context.Context, req mcphttp.Request) (mcphttp.Cancel, error) {
	return a.handle(ctx, req, true)
}

func (a *Aggregate) handle(ctx context.Context, req mcphttp.Request, modern bool) (mcphttp.Cancel, error) {
	m := req.Message
	answer := func(result map[string]any) {
		if modern {
			result["resultType"], result["ttlMs"], result["cacheScope"] = "complete", 0, "private"
		}
		raw, _ := json.Marshal(result)
		req.Sink.Deliver(jsonrpc.Answer(m.ID(), raw), true)
	}
	capabilities := map[string]any{"tools": map[string]any{}}
	info := map[string]string{"name": "sallyport-hub", "version": process.Version}
	switch {
	case m.Method == "tools/call":
		return a.call(ctx, req, modern, answer)
	case m.Method == "tools/list":
		answer(map[string]any{"tools": tools})
	case m.Method == "initialize" && !modern:
		version := m.Text(m.Param("protocolVersion"))
		if version == "" || !mcphttp.Known(version) {
			version = "2025-11-25"
		}
		answer(map[string]any{"protocolVersion": version, "capabilities": capabilities, "serverInfo": info,
			"instructions": instructions})
	case m.Method == "server/discover" && modern:
		answer(map[string]any{"supportedVersions": []string{mcphttp.Stateless}, "capabilities": capabilities,
			"instructions": instructions,
			"_meta":        map[string]any{"io.modelcontextprotocol/serverInfo": info}})
	case m.Method == "ping" && !modern:
		answer(map[string]any{})
	default:
		req.Sink.Deliver(jsonrpc.Fault(m.ID(), jsonrpc.MethodNotFound, "the aggregate has no %s", m.Method), true)
	}
	return nil, nil
}

// call runs one of the six tools. The target is checked here and again by the
// server itself.
func (a *Aggregate) call(ctx context.Context, req mcphttp.Request, modern bool,
	answer func(map[string]any)) (mcphttp.Cancel, error) {
	m := req.Message
	name, target := m.Text(m.Param("name")), m.Text(m.Param("arguments", "server"))
	if name == "list_servers" {
		answer(result(a.recorded(ctx, req, name, "",
			func(context.Context) (any, error) { return a.list(req.Identity), nil })))
		return nil, nil
	}
	if !slices.ContainsFunc(tools, func(d definition) bool { return d.Name == name }) {
		req.Sink.Deliver(jsonrpc.Fault(m.ID(), jsonrpc.InvalidParams, "the aggregate has no tool %q", name), true)
		return nil, nil
	}
	s := a.find(req.Identity, target)
	if why := a.catalog.Disabled(req.Identity)[target]; s == nil && why != nil {
		answer(result(nil, fmt.Errorf("the server %s is disabled: %w", target, why)))
		return nil, nil
	}
	if s == nil {
		answer(result(nil, fmt.Errorf("there is no server %q for %s; list_servers names those there are", target,
			req.Identity.Principal)))
		return nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() { // the server may take its time to wake, and the client has more to say
		if name == "call_tool" { // its server admits and records it
			if _, err := a.run(ctx, s, req, name, modern); err != nil {
				answer(result(nil, err))
			}
			return
		}
		answer(result(a.recorded(ctx, req, name, target, func(ctx context.Context) (any, error) {
			return a.run(ctx, s, req, name, modern)
		})))
	}()
	return mcphttp.Cancel(cancel), nil
}

// recorded runs one of the aggregate's own tools if it is admitted.
func (a *Aggregate) recorded(ctx context.Context, req mcphttp.Request, name, target string,
	run func(context.Context) (any, error)) (any, error) {
	m := req.Message
	ticket, err := a.desk.Admit(ctx, desk.Call{Call: audit.Call{
		Request: req.Identity.Request, Principal: req.Identity.Principal, Session: idle.Name(req.Session),
		Server: target, Tool: name, Arguments: m.Bytes(m.Param("arguments")),
	}})
	if err != nil {
		return nil, err
	}
	ending := "panic"
	defer func() { ticket.End(ending, 0) }()
	value, err := run(ticket.Context())
	if ending = "ok"; err != nil {
		ending = "error"
	}
	return value, err
}

func (a *Aggregate) find(id identity.Identity, name string) *lifecycle.Server {
	for _, s := range a.catalog.Visible(id) {
		if s.Name() == name {
			return s
		}
	}
	return nil
}

// pass sends a tool's call to its server under the client's own id, so that
// answer and progress come back as the server wrote them.
func (a *Aggregate) pass(ctx context.Context, s *lifecycle.Server, req mcphttp.Request, modern bool) error {
	m := req.Message
	name, _ := json.Marshal(m.Text(m.Param("arguments", "tool")))
	params := fmt.Appendf(nil, `{"name":%s`, name)
	if arguments, err := object(m, m.Param("arguments", "arguments")); err != nil {
		return err
	} else if arguments != nil {
		params = fmt.Appendf(params, `,"arguments":%s`, arguments)
	}
	if at := m.Param("_meta", "progressToken"); at.Present() {
		params = fmt.Appendf(params, `,"_meta":{"progressToken":%s}`, m.Bytes(at))
	}
	inner, err := jsonrpc.Parse(jsonrpc.Request(string(m.ID()), "tools/call", append(params, '}')))
	if err != nil {
		return err
	}
	sink := req.Sink
	if modern {
		sink = complete{sink}
	}
	cancel, err := a.session(s, req.Identity.Principal).Handle(ctx,
		mcphttp.Request{Message: inner, Identity: req.Identity, Session: req.Session, Sink: sink})
	if cancel != nil {
		context.AfterFunc(ctx, cancel)
	}
	return err
}

// session is the principal's own session with a server.
func (a *Aggregate) session(s *lifecycle.Server, principal string) *lifecycle.Session {
	a.mu.Lock()
	defer a.mu.Unlock()
	for k := range a.sessions {
		if k.server.Gone() {
			delete(a.sessions, k)
		}
	}
	k := key{s, principal}
	if a.sessions[k] == nil {
		a.sessions[k] = s.OwnSession()
	}
	return a.sessions[k]
}

// complete adds what 2026-07-28 demands of each result and older servers do
// not know.
type complete struct{ mcphttp.Sink }

func (c complete) Deliver(raw []byte, final bool) {
	if m, err := jsonrpc.Parse(raw); err == nil && final {
		if r := m.Result(); r.Present() && !m.Find(r, "resultType").Present() {
			open := jsonrpc.Span{Start: r.Start, End: r.Start + 1}
			more := `{"resultType":"complete",`
			if len(m.Members(r)) == 0 {
				more = `{"resultType":"complete"`
			}
			raw = jsonrpc.Splice(m.Raw, jsonrpc.Edit{At: open, New: []byte(more)})
		}
	}
	c.Sink.Deliver(raw, final)
}

package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/sallyport-dev/sallyport/hub/pins"
	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
	"github.com/sallyport-dev/sallyport/internal/mcphttp"
)

// binding ties a tool's argument to the header that repeats it (x-mcp-header,
// MCP 2026-07-28).
type binding struct {
	path   []string
	header string
}

// HeaderError is a request whose headers disagree with its body.
type HeaderError struct{ Text string }

// Error implements error.
func (e *HeaderError) Error() string { return e.Text }

// describe reads a tool's name and its header bindings.
func describe(raw []byte) (name string, list []binding) {
	type property struct {
		Header     string                     `json:"x-mcp-header"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	definition := map[string]json.RawMessage{} // a struct would take "Name" for the name, too
	_ = json.Unmarshal(raw, &definition)
	_ = json.Unmarshal(definition["name"], &name)
	var walk func(schema json.RawMessage, path []string)
	walk = func(schema json.RawMessage, path []string) {
		var p property
		if json.Unmarshal(schema, &p) != nil || len(path) > 16 {
			return
		}
		if p.Header != "" && len(path) > 0 {
			list = append(list, binding{slices.Clone(path), p.Header})
		}
		for key, sub := range p.Properties {
			walk(sub, append(path, key))
		}
	}
	walk(definition["inputSchema"], nil)
	return name, list
}

// check compares Mcp-Param-* headers with the arguments.
func (t tool) check(h http.Header, m *jsonrpc.Message) error {
	for _, b := range t.headers {
		name := "Mcp-Param-" + b.header
		at := m.Param(append([]string{"arguments"}, b.path...)...)
		value, valid := mcphttp.Decode(h.Get(name))
		absent := !at.Present() || string(m.Bytes(at)) == "null"
		switch given := len(h.Values(name)) > 0; {
		case absent && !given:
		case absent || !given || !valid || !same(value, m, at):
			return &HeaderError{fmt.Sprintf("header mismatch: %s does not repeat the argument %s", name,
				strings.Join(b.path, "."))}
		}
	}
	return nil
}

func same(value string, m *jsonrpc.Message, at jsonrpc.Span) bool {
	raw := string(m.Bytes(at))
	if raw[0] == '"' {
		return value == m.Text(at)
	}
	if raw == "true" || raw == "false" {
		return value == raw
	}
	a, err1 := strconv.ParseFloat(value, 64)
	b, err2 := strconv.ParseFloat(raw, 64)
	return err1 == nil && err2 == nil && a == b && b == float64(int64(b))
}

func modernHeader(modern bool, method string) http.Header {
	if !modern {
		return nil
	}
	return http.Header{"Mcp-Protocol-Version": {mcphttp.Stateless}, "Mcp-Method": {method}}
}

// statelessMeta are the params of a request of the hub's own in 2026-07-28.
const statelessMeta = `{"_meta":{"` + jsonrpc.VersionKey + `":"` + mcphttp.Stateless +
	`","io.modelcontextprotocol/clientInfo":{"name":"sallyport-hub","version":"1"},` +
	`"io.modelcontextprotocol/clientCapabilities":{}}}`

// listing is the hub's own tools/list.
func listing(modern bool, cursor string) *jsonrpc.Message {
	params := map[string]any{}
	if cursor != "" {
		params["cursor"] = cursor
	}
	if modern {
		params["_meta"] = map[string]any{jsonrpc.VersionKey: mcphttp.Stateless,
			"io.modelcontextprotocol/clientInfo":         map[string]string{"name": "sallyport-hub", "version": "1"},
			"io.modelcontextprotocol/clientCapabilities": map[string]any{}}
	}
	raw, _ := json.Marshal(params)
	return mustParse(jsonrpc.Request(`"sallyport"`, "tools/list", raw))
}

// Once takes one request of the stateless era. Its errors are those of
// Session.Handle.
func (s *Server) Once(ctx context.Context, req mcphttp.Request) (mcphttp.Cancel, error) {
	return s.admit(ctx, req, s.once)
}

// once sends an admitted request of the stateless era.
func (s *Server) once(ctx context.Context, req mcphttp.Request) (mcphttp.Cancel, error) {
	if s.awake(true) == nil && s.discovered(req) {
		return nil, nil
	}
	for range maxTries {
		ch, err := s.shared(ctx, nil)
		if err != nil {
			return nil, err
		}
		cancel, err := s.pass(ctx, ch, req)
		if err == nil || ch.Err() == nil {
			return cancel, err
		}
		// It ended just now, perhaps to make room: nothing was sent yet.
	}
	return nil, s.restless()
}

// pass sends a request of the stateless era. Its error says that nothing was
// sent.
func (s *Server) pass(ctx context.Context, ch *channel, req mcphttp.Request) (mcphttp.Cancel, error) {
	m := req.Message
	if err := s.vet(ctx, ch, req); err != nil && ch.Err() != nil {
		return nil, err
	} else if err != nil {
		code := jsonrpc.InvalidParams
		if _, ok := err.(*HeaderError); ok {
			code = jsonrpc.HeaderMismatch
		}
		req.Sink.Deliver(jsonrpc.Fault(m.ID(), code, "%v", err), true)
		return nil, nil
	}
	call := s.newCall(req)
	if m.Method == "server/discover" {
		// Some servers answer nothing that they do not know.
		call.Rewrite, call.Timeout = s.discover, min(call.Timeout, discoverBudget)
	}
	if err := ch.Start(call); err != nil {
		return nil, err
	}
	ch.used.Store(true)
	return func() { ch.Cancel(call, "client gone") }, nil
}

// discovered answers from the snapshot of a sleeping server.
func (s *Server) discovered(req mcphttp.Request) bool {
	m, snap := req.Message, s.snapshot()
	if m.Text(m.Param("_meta", jsonrpc.VersionKey)) != mcphttp.Stateless {
		return false
	}
	// The hub asked as a client without capabilities.
	plain := len(m.Members(m.Param("_meta", "io.modelcontextprotocol/clientCapabilities"))) == 0
	switch {
	case m.Method == "server/discover" && snap.Discover != nil:
		req.Sink.Deliver(jsonrpc.Answer(m.ID(), snap.Discover), true)
	case m.Method == "tools/list" && snap.ModernTools != nil && plain && !m.Param("cursor").Present():
		req.Sink.Deliver(s.filter(req, mustParse(jsonrpc.Answer(m.ID(), snap.ModernTools))), true)
	default:
		return false
	}
	return true
}

// discover keeps the answer, and tells a client with an error it understands that a
// server knows nothing of this era: only then does it fall back.
func (s *Server) discover(m *jsonrpc.Message) []byte {
	if !m.IsError() {
		s.remember(func(snap *pins.Snapshot) *json.RawMessage { return &snap.Discover }, m.Bytes(m.Result()))
		return m.Raw
	}
	if c := m.ErrorCode(); c == jsonrpc.UnsupportedVersion || c == jsonrpc.HeaderMismatch ||
		c == jsonrpc.MissingCapability {
		return m.Raw
	}
	return jsonrpc.Fault(m.ID(), jsonrpc.MethodNotFound, "%s does not speak %s: %s", s.cfg.Name, mcphttp.Stateless,
		m.ErrorText())
}

// ownHello is the handshake of the hub itself, for its own calls.
var ownHello = mustParse(jsonrpc.Request(`"sallyport"`, "initialize",
	json.RawMessage(`{"protocolVersion":"2025-11-25","capabilities":{},`+
		`"clientInfo":{"name":"sallyport-hub","version":"1"}}`)))

func mustParse(raw []byte) *jsonrpc.Message {
	m, err := jsonrpc.Parse(raw)
	if err != nil {
		panic(err)
	}
	return m
}

package aggregate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sallyport-dev/sallyport/hub/lifecycle"
	"github.com/sallyport-dev/sallyport/internal/identity"
	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
	"github.com/sallyport-dev/sallyport/internal/mcphttp"
)

const instructions = "This server stands for several others. list_servers names them, list_tools their tools, " +
	"get_tool_schema one tool's arguments; call_tool calls it. A sleeping server is woken by its use."

// pageSize is how many tools list_tools names at once.
const pageSize = 100

// definition is a tool of the aggregate.
type definition struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	Annotations map[string]bool `json:"annotations"`
}

var tools = []definition{
	define("list_servers", "Names the servers that you may use, each with its state.", true),
	define("list_tools", "Names the tools of a server that you may call, with the first line of their descriptions, "+
		"100 at a time from offset on.", true, "server", "offset"),
	define("get_tool_schema", "Returns the full definition of one tool.", true, "server", "tool"),
	define("call_tool", "Calls a tool of a server and returns its result unchanged.", false, "server", "tool",
		"arguments"),
	define("wake_server", "Starts a server now, also one that was parked after failing.", false, "server"),
	define("sleep_server", "Stops a server until its next use. Calls that run in it are lost.", false, "server"),
}

func define(name, description string, readOnly bool, args ...string) definition {
	types := map[string]string{"offset": "integer", "arguments": "object"}
	properties, required := map[string]any{}, []string{}
	for _, arg := range args {
		kind := types[arg]
		if kind == "" {
			kind = "string"
			required = append(required, arg)
		}
		properties[arg] = map[string]string{"type": kind}
	}
	schema, _ := json.Marshal(map[string]any{"type": "object", "properties": properties, "required": required})
	return definition{name, description, schema, map[string]bool{"readOnlyHint": readOnly}}
}

// result is a tool result that says the same as text and as structure.
func result(value any, err error) map[string]any {
	if err != nil {
		return map[string]any{"isError": true, "content": []map[string]string{{"type": "text", "text": err.Error()}}}
	}
	text, _ := json.Marshal(value)
	return map[string]any{"content": []map[string]string{{"type": "text", "text": string(text)}},
		"structuredContent": value}
}

// list answers list_servers.
func (a *Aggregate) list(id identity.Identity) any {
	type line struct {
		Name   string `json:"name"`
		State  string `json:"state"`
		Reason string `json:"reason,omitempty"`
	}
	lines := []line{}
	for _, s := range a.catalog.Visible(id) {
		status := s.Status()
		lines = append(lines, line{s.Name(), status.State, status.Reason})
	}
	disabled := a.catalog.Disabled(id)
	for _, name := range slices.Sorted(maps.Keys(disabled)) {
		lines = append(lines, line{name, "disabled", disabled[name].Error()})
	}
	return map[string]any{"servers": lines}
}

// run answers the tools that concern one server. A panic is one failed call.
func (a *Aggregate) run(ctx context.Context, s *lifecycle.Server, req mcphttp.Request, name string,
	modern bool) (value any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error: %v", p)
		}
	}()
	m, id := req.Message, req.Identity
	switch name {
	case "call_tool":
		return nil, a.pass(ctx, s, req, modern)
	case "wake_server":
		if err := s.Wake(ctx); err != nil {
			return nil, err
		}
		return map[string]string{"server": s.Name(), "state": s.Status().State}, nil
	case "sleep_server":
		if !id.GrantedWhole(s.Name()) {
			return nil, fmt.Errorf("%s may not stop %s for others: that takes the grant %s/*", id.Principal, s.Name(),
				s.Name())
		}
		s.Sleep()
		return map[string]string{"server": s.Name(), "state": s.Status().State}, nil
	}
	all, err := s.Tools(ctx, id)
	if err != nil {
		return nil, err
	}
	if name == "list_tools" {
		offset, err := whole(m, m.Param("arguments", "offset"))
		if err != nil {
			return nil, fmt.Errorf("offset %w", err)
		}
		return page(all, offset), nil
	}
	tool := m.Text(m.Param("arguments", "tool"))
	for _, raw := range all {
		if read(raw).Name == tool {
			return json.RawMessage(raw), nil
		}
	}
	return nil, fmt.Errorf("%s has no tool %q that %s may call", s.Name(), tool, id.Principal)
}

// whole reads a number as models write it: 90, 90.0, "90". null and nothing
// are 0.
func whole(m *jsonrpc.Message, at jsonrpc.Span) (int, error) {
	text := strings.TrimSpace(strings.Trim(string(m.Bytes(at)), `"`))
	if text == "" || text == "null" {
		return 0, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n != math.Trunc(n) || n < 0 || n > 1e9 {
		return 0, fmt.Errorf("must be a whole number from 0 on, not %.40s", m.Bytes(at))
	}
	return int(n), nil
}

// object reads the arguments of a tool as models write them: an object, or a
// string that holds one. null and nothing are absent.
func object(m *jsonrpc.Message, at jsonrpc.Span) (json.RawMessage, error) {
	raw := json.RawMessage(m.Bytes(at))
	if len(raw) > 0 && raw[0] == '"' {
		raw = bytes.TrimSpace([]byte(m.Text(at)))
	}
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, nil
	case raw[0] != '{' || !json.Valid(raw):
		return nil, fmt.Errorf("arguments must be a JSON object with the tool's own arguments, not %.40s", m.Bytes(at))
	case jsonrpc.TooDeep(raw): // a string hides its levels from whoever counted before
		return nil, fmt.Errorf("arguments are nested deeper than %d levels", jsonrpc.MaxDepth)
	}
	return raw, nil
}

type summary struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

func read(raw []byte) (s summary) {
	_ = json.Unmarshal(raw, &s)
	return s
}

// page is a part of a listing with the total.
func page(all [][]byte, offset int) any {
	from := min(max(offset, 0), len(all))
	to := min(from+pageSize, len(all))
	lines := []summary{}
	for _, raw := range all[from:to] {
		s := read(raw)
		s.Description = firstLine(s.Description)
		lines = append(lines, s)
	}
	out := map[string]any{"tools": lines, "total": len(all)}
	if to < len(all) {
		out["next_offset"] = to
	}
	return out
}

func firstLine(s string) string {
	for i, c := range s {
		if c == '\n' || i > 300 {
			return s[:i] + " …"
		}
	}
	return s
}

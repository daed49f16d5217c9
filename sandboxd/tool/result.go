package tool

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// textLimit is the size in bytes from which the structured output is no longer
// repeated as text: a client that shows both would carry it twice.
const textLimit = 64 << 10

// common is embedded in every structured output.
type common struct {
	Notices []string `json:"notices,omitempty" jsonschema:"what else there is to know about this result"`

	failed  bool   // the result is an error, though a structured one
	summary string // stands in for the text once that passes textLimit
}

func (c *common) base() *common { return c }

func (c *common) note(line string) { c.Notices = append(c.Notices, line) }

type structured interface{ base() *common }

// add registers one tool. handle's error becomes a result with isError: its
// text is read by a model, so it says what is wrong and what would be right.
func add[In any, Out structured](s *Set, server *mcp.Server, t *mcp.Tool, handle func(context.Context, *mcp.CallToolRequest, In) (Out, error)) {
	mcp.AddTool(server, t, func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		out, err := handle(ctx, req, in)
		if err != nil {
			var none Out
			return nil, none, s.withNotices(err)
		}
		c := out.base()
		c.Notices = append(c.Notices, s.cfg.Jail.Notices()...)
		res := &mcp.CallToolResult{IsError: c.failed}
		text, err := json.Marshal(out)
		if err != nil {
			var none Out
			return nil, none, err
		}
		if len(text) > textLimit && c.summary != "" {
			res.Content = []mcp.Content{&mcp.TextContent{Text: c.summary}}
		}
		return res, out, nil
	})
}

// plainError carries the jail's notices behind an error's own words.
type plainError string

func (e plainError) Error() string { return string(e) }

func (s *Set) withNotices(err error) error {
	return plainError(strings.Join(append([]string{err.Error()}, s.cfg.Jail.Notices()...), "\n"))
}

// property is one argument of a tool.
type property struct {
	name, kind, text string
	required         bool
}

func need(name, kind, text string) property { return property{name, kind, text, true} }
func may(name, kind, text string) property  { return property{name, kind, text, false} }

// arguments is a tool's input schema. It is written by hand because the inferred
// one says ["null","integer"] for an optional number, which several clients'
// converters refuse.
func arguments(props ...property) map[string]any {
	fields, required := map[string]any{}, []string{}
	for _, p := range props {
		fields[p.name] = map[string]any{"type": p.kind, "description": p.text}
		if p.required {
			required = append(required, p.name)
		}
	}
	return map[string]any{"type": "object", "properties": fields, "required": required, "additionalProperties": false}
}

// hints are the annotations of a tool. Everything that is not said is its
// worse case, as in the specification (schema.ts, ToolAnnotations).
func hints(title string, readOnly, destructive, idempotent, openWorld bool) *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{Title: title, ReadOnlyHint: readOnly, DestructiveHint: &destructive, IdempotentHint: idempotent, OpenWorldHint: &openWorld}
}

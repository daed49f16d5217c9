package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/sandboxd/output"
)

// textLimit is the size in bytes of the text copy of a result. The structured
// output may be larger; a client that shows both would carry it twice.
const textLimit = 64 << 10

// common is embedded in every structured output.
type common struct {
	Notices []string `json:"notices,omitempty" jsonschema:"what else there is to know about this result"`

	failed bool // the result is an error, though a structured one
}

func (c *common) base() *common { return c }

// note adds a notice, once.
func (c *common) note(format string, args ...any) {
	if len(args) > 0 {
		format = fmt.Sprintf(format, args...)
	}
	if !slices.Contains(c.Notices, format) {
		c.Notices = append(c.Notices, format)
	}
}

// structured is a tool's output: text is its copy for clients that show no
// structured content, at most textLimit bytes of it, and says how to see the
// rest. It has the file's and the command's own characters, not their escapes.
type structured interface {
	base() *common
	text() string
}

// add registers one tool. The arguments are read here and not by the SDK, whose
// words are not a model's. handle's error becomes a result with isError: it says
// what is wrong and what would be right.
func add[In any, Out structured](s *Set, server *mcp.Server, t *mcp.Tool, props []property,
	handle func(context.Context, *mcp.CallToolRequest, In) (Out, error)) {
	var out Out
	t.InputSchema = schema(props)
	t.OutputSchema = outputSchema(reflect.TypeOf(out).Elem())
	server.AddTool(t, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var in In
		if err := read(req.Params.Arguments, props, &in); err != nil {
			return s.failure(err, nil), nil
		}
		restored, err := s.files.Usable()
		if err != nil {
			return s.failure(err, nil), nil
		}
		out, err := handle(ctx, req, in)
		if err != nil {
			return s.failure(err, restored), nil
		}
		c := out.base()
		for _, line := range append(restored, s.cfg.Jail.Notices()...) {
			c.note("%s", line)
		}
		return result(out)
	})
}

// result is both copies of an output.
func result(out structured) (*mcp.CallToolResult, error) {
	var raw bytes.Buffer
	e := json.NewEncoder(&raw)
	e.SetEscapeHTML(false)
	if err := e.Encode(out); err != nil {
		return nil, err
	}
	c := out.base()
	res := &mcp.CallToolResult{IsError: c.failed, StructuredContent: json.RawMessage(bytes.TrimSpace(raw.Bytes())),
		Content: []mcp.Content{&mcp.TextContent{Text: out.text()}}}
	if len(c.Notices) > 0 {
		res.Content = append(res.Content, &mcp.TextContent{Text: notices(c.Notices)})
	}
	return res, nil
}

func notices(lines []string) string { return "Notice: " + strings.Join(lines, "\nNotice: ") }

// failure is a tool error.
func (s *Set) failure(err error, more []string) *mcp.CallToolResult {
	text := strings.Join(append(append([]string{err.Error()}, more...), s.cfg.Jail.Notices()...), "\n")
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// abridged is text of at most most bytes: its beginning and its end, with a line
// between them that says what is left out of the wrote bytes, or of text if that
// is more, and how to see it.
func abridged(text string, wrote int64, most int, how string) string {
	if len(text) <= most {
		return text
	}
	head, tail := output.Ends(text, most/2)
	left := max(wrote, int64(len(text))) - int64(len(head)+len(tail))
	return fmt.Sprintf("%s\n[… %d bytes left out here: %s …]\n%s", head, left, how, tail)
}

// outputSchema describes a result struct as encoding/json writes it.
func outputSchema(t reflect.Type) map[string]any {
	fields, required := map[string]any{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			continue // embedded or our own
		}
		property := typeSchema(f.Type)
		if text := f.Tag.Get("jsonschema"); text != "" {
			property["description"] = text
		}
		fields[name] = property
		if options != "omitempty" {
			required = append(required, name)
		}
	}
	return map[string]any{"type": "object", "properties": fields, "required": required, "additionalProperties": false}
}

func typeSchema(t reflect.Type) map[string]any {
	switch t.Kind() {
	case reflect.Struct:
		return outputSchema(t)
	case reflect.Slice:
		return map[string]any{"type": "array", "items": typeSchema(t.Elem())}
	case reflect.Pointer:
		return map[string]any{"type": []string{"null", typeSchema(t.Elem())["type"].(string)}}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		return map[string]any{"type": "string"}
	}
	return map[string]any{"type": "integer"}
}

// hints are the annotations of a tool. Everything that is not said is its
// worse case, as in the specification (schema.ts, ToolAnnotations).
func hints(title string, readOnly, destructive, idempotent, openWorld bool) *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{Title: title, ReadOnlyHint: readOnly, DestructiveHint: &destructive,
		IdempotentHint: idempotent, OpenWorldHint: &openWorld}
}

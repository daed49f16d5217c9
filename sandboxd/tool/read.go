package tool

import (
	"context"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/sandboxd/output"
)

type readIn struct {
	Path   string `json:"path"`
	Offset *int   `json:"offset"`
	Limit  *int   `json:"limit"`
}

type readOut struct {
	common
	Content    string `json:"content" jsonschema:"the file's text, or the lines asked for"`
	Size       int64  `json:"size" jsonschema:"size of the whole file in bytes"`
	TotalLines int    `json:"total_lines" jsonschema:"number of lines in the whole file"`

	first int // line of the content
}

func (s *Set) addReadFile(server *mcp.Server) {
	add(s, server, &mcp.Tool{
		Name: "read_file",
		Description: "Read a UTF-8 text file in the workspace, whole (up to 1 MiB) or some of its lines (of files up " +
			"to 256 MiB). Paths are relative to the workspace.",
		Annotations: hints("Read a file", true, false, true, false),
	}, []property{
		need("path", "string", "file to read, relative to the workspace"),
		may("offset", "integer", "first line to return, counted from 1"),
		may("limit", "integer", "how many lines to return"),
	}, s.readFile)
}

func (s *Set) readFile(_ context.Context, _ *mcp.CallToolRequest, in readIn) (*readOut, error) {
	part, err := s.files.ReadLines(in.Path, in.Offset, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &readOut{Content: part.Text, Size: part.Size, TotalLines: part.Lines, first: 1}
	if in.Offset != nil {
		out.first = *in.Offset
	}
	return out, nil
}

// text is the file's own text. What does not fit is not abridged in the middle,
// as that could be taken for the file: it ends with a line, and says where to go on.
// White space alone is named: models' APIs refuse a conversation with a blank text
// in it (400, "text content blocks must contain non-whitespace text").
func (o *readOut) text() string {
	switch blank := strings.TrimSpace(o.Content) == ""; {
	case o.Content == "":
		return "[the file is empty]"
	case blank && len(o.Content) <= textLimit-1024:
		return o.Content + "[only white space]"
	case !blank && len(o.Content) <= textLimit:
		return o.Content
	}
	shown := output.Head(o.Content, textLimit-1024)
	lines := strings.Count(shown, "\n")
	if lines == 0 {
		return fmt.Sprintf("%s\n[… the line goes on for %d bytes: see the structured content, or cut it with "+
			"run_command …]", shown, len(o.Content)-len(shown))
	}
	shown = shown[:strings.LastIndexByte(shown, '\n')+1]
	return fmt.Sprintf("%s[… lines %d to %d of %d; for the rest: offset %d …]", shown, o.first, o.first+lines-1,
		o.TotalLines, o.first+lines)
}

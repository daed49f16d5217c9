package tool

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/sandboxd/files"
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
}

func (s *Set) addReadFile(server *mcp.Server) {
	add(s, server, &mcp.Tool{
		Name:        "read_file",
		Description: "Read a UTF-8 text file in the workspace, whole or some of its lines. Files up to 1 MiB; paths are relative to the workspace.",
		Annotations: hints("Read a file", true, false, true, false),
		InputSchema: arguments(
			need("path", "string", "file to read, relative to the workspace"),
			may("offset", "integer", "first line to return, counted from 1"),
			may("limit", "integer", "how many lines to return"),
		),
	}, s.readFile)
}

func (s *Set) readFile(_ context.Context, _ *mcp.CallToolRequest, in readIn) (*readOut, error) {
	text, err := s.files.Read(in.Path)
	if err != nil {
		return nil, err
	}
	part, total, err := files.Lines(text, in.Offset, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &readOut{Content: part, Size: int64(len(text)), TotalLines: total}
	out.summary = fmt.Sprintf("%q: %d bytes in %d lines, of which %d bytes are in the structured content. For a smaller answer give offset and limit (lines).",
		in.Path, len(text), total, len(part))
	return out, nil
}

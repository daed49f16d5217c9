package tool

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
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
	part, total, err := lines(text, in.Offset, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &readOut{Content: part, Size: int64(len(text)), TotalLines: total}
	out.summary = fmt.Sprintf("%q: %d bytes in %d lines, of which %d bytes are in the structured content. For a smaller answer give offset and limit (lines).",
		in.Path, len(text), total, len(part))
	return out, nil
}

// lines cuts the asked lines out of text and counts all of them. A line ends
// with its newline; what follows the last newline, if anything, is a line too.
func lines(text string, offset, limit *int) (part string, total int, err error) {
	total = strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		total++
	}
	first := 1
	if offset != nil {
		first = *offset
	}
	if first < 1 || limit != nil && *limit < 1 {
		return "", total, errors.New("offset and limit are counted in lines and start at 1")
	}
	if first > max(total, 1) {
		return "", total, fmt.Errorf("offset %d is past the end: the file has %d lines", first, total)
	}
	part = text[skipLines(text, first-1):]
	if limit != nil {
		part = part[:skipLines(part, *limit)]
	}
	return part, total, nil
}

// skipLines is the offset in bytes behind the first n lines of text.
func skipLines(text string, n int) int {
	at := 0
	for ; n > 0 && at < len(text); n-- {
		i := strings.IndexByte(text[at:], '\n')
		if i < 0 {
			return len(text)
		}
		at += i + 1
	}
	return at
}

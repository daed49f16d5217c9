package tool

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxFile is the most decoded content that one call reads or writes, in bytes.
const maxFile = 1 << 20

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
	text, err := s.readText(in.Path)
	if err != nil {
		return nil, err
	}
	part, total, err := lines(text, in.Offset, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &readOut{Content: part, Size: int64(len(text)), TotalLines: total}
	out.summary = fmt.Sprintf("%s: %d bytes in %d lines, of which %d bytes are in the structured content. For a smaller answer give offset and limit (lines).",
		quote(in.Path), len(text), total, len(part))
	return out, nil
}

// readText reads one whole regular file of valid UTF-8.
func (s *Set) readText(name string) (string, error) {
	if err := s.checkPath(name); err != nil {
		return "", err
	}
	f, info, err := s.openRegular(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info.Size() > maxFile {
		return "", tooLarge(name, info.Size())
	}
	// The size is only what it was: the file may be growing.
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", explain(name, err)
	}
	if len(data) > maxFile {
		return "", tooLarge(name, int64(len(data)))
	}
	if !utf8.Valid(data) {
		return "", fmt.Errorf("%s is not valid UTF-8 text (%d bytes): look at it with run_command, for example with `file`, `xxd` or `iconv`", quote(name), len(data))
	}
	return string(data), nil
}

// openRegular opens name for reading without ever waiting. O_NONBLOCK keeps a
// FIFO or a leased file from holding a thread; the look before it keeps devices
// from being opened at all, and the one after it is on what was really opened.
func (s *Set) openRegular(name string) (*os.File, os.FileInfo, error) {
	info, err := s.cfg.Root.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		return nil, nil, notRegular(name, info)
	}
	f, err := s.cfg.Root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, explain(name, err)
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = notRegular(name, info)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func notRegular(name string, info os.FileInfo) error {
	return fmt.Errorf("%s is %s: only regular files can be read and written", quote(name), kind(info.Mode()))
}

func tooLarge(name string, size int64) error {
	return fmt.Errorf("%s is larger than 1 MiB (%d bytes): take a part of it with run_command, for example `head`, `tail`, `sed -n 1,200p` or `grep -n`", quote(name), size)
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
		return "", total, fmt.Errorf("offset and limit are counted in lines and start at 1")
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

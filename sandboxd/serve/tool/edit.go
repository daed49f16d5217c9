package tool

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/sandboxd/diff"
	"github.com/sallyport-dev/sallyport/sandboxd/files"
)

// maxEdits is how many occurrences one call replaces.
const maxEdits = 10_000

// maxDiff is how much of a diff is shown, in bytes.
const maxDiff = 48 << 10

type editIn struct {
	Path       string `json:"path"`
	Old        string `json:"old_text"`
	New        string `json:"new_text"`
	ReplaceAll bool   `json:"replace_all"`
	DryRun     bool   `json:"dry_run"`
}

type editOut struct {
	common
	Path         string `json:"path" jsonschema:"the file, relative to the workspace, symbolic links followed"`
	Replacements int    `json:"replacements"`
	Written      bool   `json:"written" jsonschema:"false for a dry run"`
	Diff         string `json:"diff" jsonschema:"the change as a unified diff"`
}

func (s *Set) addEditFile(server *mcp.Server) {
	add(s, server, &mcp.Tool{
		Name: "edit_file",
		Description: "Replace an exact piece of text in a UTF-8 file of up to 1 MiB. old_text must occur exactly once, or give replace_all. " +
			"Line endings (CRLF), byte order mark and mode are kept. Either the whole change is made or none of it." + s.protection(),
		Annotations: hints("Edit a file", false, true, false, false),
		InputSchema: arguments(
			need("path", "string", "file to edit, relative to the workspace"),
			need("old_text", "string", "the text to replace, exactly as it stands in the file"),
			need("new_text", "string", "what to put in its place"),
			may("replace_all", "boolean", "replace every occurrence (default false)"),
			may("dry_run", "boolean", "only show the diff, write nothing (default false)"),
		),
	}, s.editFile)
}

func (s *Set) editFile(_ context.Context, _ *mcp.CallToolRequest, in editIn) (*editOut, error) {
	out := &editOut{Written: !in.DryRun}
	var err error
	out.Path, err = s.files.Edit(in.Path, in.DryRun, func(old string) (string, error) {
		edits, err := in.find(old)
		if err != nil {
			return "", fmt.Errorf("%s: %w", in.Path, err)
		}
		out.Replacements = len(edits)
		out.Diff = diff.Unified(in.Path, old, edits)
		return diff.Apply(old, edits), nil
	})
	if len(out.Diff) > maxDiff {
		out.Diff = strings.ToValidUTF8(out.Diff[:maxDiff], "") + "\n[the rest of the diff is left out]\n"
	}
	return out, err
}

// find lists what is to be replaced in text.
func (in editIn) find(text string) ([]diff.Edit, error) {
	if in.Old == "" || in.Old == in.New {
		return nil, errors.New("old_text must not be empty, and new_text must differ from it; write_file writes a whole file")
	}
	old, new := in.Old, in.New
	// A model writes \n where the file says \r\n.
	if crlf := strings.Count(text, "\r\n"); crlf > 0 && (crlf == strings.Count(text, "\n") || !strings.Contains(text, old)) {
		old, new = toCRLF(old), toCRLF(new)
	}
	count := strings.Count(text, old)
	if count > maxEdits {
		return nil, fmt.Errorf("old_text occurs %d times: at most %d are replaced at once; use sed in run_command", count, maxEdits)
	}
	// Asked before anything is built: the product can be a terabyte.
	if size := len(text) + count*(len(new)-len(old)); in.ReplaceAll && size > files.MaxFile {
		return nil, fmt.Errorf("the file would be %d bytes: at most 1 MiB is written", size)
	}
	edits := make([]diff.Edit, 0, count)
	for at := 0; ; at += len(old) {
		i := strings.Index(text[at:], old)
		if i < 0 {
			break
		}
		at += i
		edits = append(edits, diff.Edit{At: at, Len: len(old), New: new})
	}
	switch {
	case len(edits) == 0:
		return nil, errors.New("old_text does not occur in the file" + nearest(text, in.Old))
	case len(edits) > 1 && !in.ReplaceAll:
		var at []string
		for _, e := range edits[:min(10, len(edits))] {
			at = append(at, fmt.Sprint(1+strings.Count(text[:e.At], "\n")))
		}
		return nil, fmt.Errorf("old_text occurs %d times (first at lines %s): add lines around it until it is the only one, or set replace_all", len(edits), strings.Join(at, ", "))
	}
	return edits, nil
}

func toCRLF(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\r\n")
}

// nearest says where the first line of old stands apart from its white space:
// the most frequent mistake.
func nearest(text, old string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(old), "\n")
	first = strings.TrimSpace(first)
	for i, line := range strings.Split(text, "\n") {
		if first != "" && strings.Contains(line, first) {
			return fmt.Sprintf("; its first line is like line %d: compare the white space and the lines that follow with read_file", i+1)
		}
	}
	return ": read the file again, it may have changed"
}

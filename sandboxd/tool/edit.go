package tool

import (
	"context"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/internal/diff"
	"github.com/sallyport-dev/sallyport/sandboxd/files"
)

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

func (o *editOut) text() string {
	verb := "replaced in"
	if !o.Written {
		verb = "would be replaced in"
	}
	return fmt.Sprintf("%d %s %s\n%s", o.Replacements, verb, files.Name(o.Path), o.Diff)
}

var editProperties = []property{
	need("path", "string", "file to edit, relative to the workspace"),
	need("old_text", "string", "the text to replace, exactly as it stands in the file"),
	need("new_text", "string", "what to put in its place"),
	may("replace_all", "boolean", "replace every occurrence (default false)"),
	may("dry_run", "boolean", "only show the diff, write nothing (default false)"),
}

func (s *Set) addEditFile(server *mcp.Server) {
	add(s, server, &mcp.Tool{
		Name: "edit_file",
		Description: "Replace an exact piece of text in a UTF-8 file of up to 1 MiB. old_text must occur exactly " +
			"once, or give replace_all. " +
			"Line endings (CRLF), byte order mark and mode are kept. Either the whole change is made or none of it." +
			s.protection(),
		Annotations: hints("Edit a file", false, true, false, false),
	}, editProperties, s.editFile)
}

func (s *Set) editFile(_ context.Context, _ *mcp.CallToolRequest, in editIn) (*editOut, error) {
	out := &editOut{Written: !in.DryRun}
	var err error
	out.Path, err = s.files.Edit(in.Path, in.DryRun, func(old string) (string, error) {
		edits, err := files.Replace(old, in.Old, in.New, in.ReplaceAll)
		if err != nil {
			return "", fmt.Errorf("%s: %w", files.Name(in.Path), err)
		}
		out.Replacements = len(edits)
		out.Diff = diff.Unified(files.Name(in.Path), old, edits)
		return diff.Apply(old, edits), nil
	})
	if len(out.Diff) > maxDiff {
		out.Diff = strings.ToValidUTF8(out.Diff[:maxDiff], "") + "\n[the rest of the diff is left out]\n"
	}
	return out, err
}

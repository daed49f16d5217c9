package tool

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/sandboxd/files"
)

type listIn struct {
	Path    string `json:"path"`
	Glob    string `json:"glob"`
	Depth   *int   `json:"depth"`
	Ignored bool   `json:"include_ignored"`
	Limit   *int   `json:"limit"`
	Cursor  string `json:"cursor"`
}

type listOut struct {
	common
	Entries    []files.Entry `json:"entries"`
	NextCursor string        `json:"next_cursor" jsonschema:"cursor of the next page; empty at the end"`
}

// walkArguments are what list_files and search_files have in common.
var walkArguments = []property{
	may("path", "string", "where to begin, relative to the workspace (default: the workspace)"),
	may("glob", "string", "only paths like this, such as *.go or src/**/*.{ts,tsx}, or a list of these with commas; "+
		"with a slash it is relative to the workspace"),
	may("include_ignored", "boolean", "also what .gitignore and .ignore exclude, and .git (default false)"),
	may("cursor", "string", "next_cursor of the page before"),
}

const unusual = " In the text, a name in double quotes is a JSON string: give it back as it stands."

func (s *Set) addListFiles(server *mcp.Server) {
	add(s, server, &mcp.Tool{
		Name: "list_files",
		Description: "List files and directories of the workspace as a tree in the order of their names, with sizes. " +
			"Files that .gitignore or .ignore exclude are left out. Symbolic links are not followed." + unusual,
		Annotations: hints("List files", true, false, true, false),
	}, append(walkArguments,
		may("depth", "integer", "levels of directories, 1 to 64 (default 3)"),
		may("limit", "integer", "entries on a page, 1 to 1000 (default 200)")), s.listFiles)
}

func (s *Set) listFiles(ctx context.Context, _ *mcp.CallToolRequest, in listIn) (*listOut, error) {
	depth, err := within("depth", in.Depth, 3, 1, 64)
	if err != nil {
		return nil, err
	}
	limit, err := within("limit", in.Limit, 200, 1, 1000)
	if err != nil {
		return nil, err
	}
	glob, err := files.NewGlob(in.Glob)
	if err != nil {
		return nil, err
	}
	leave, err := s.runner.Walk(ctx, s.owner(ctx))
	if err != nil {
		return nil, err
	}
	defer leave()
	l, err := s.files.List(ctx, files.Walk{Dir: in.Path, Depth: depth, Glob: glob, Ignored: in.Ignored,
		From: in.Cursor}, limit)
	out := &listOut{Entries: l.Entries, NextCursor: l.Next}
	for _, line := range l.Notices {
		out.note("%s", line)
	}
	out.noteGlob(in.Path, in.Glob, len(l.Entries) == 0)
	return out, err
}

// noteGlob tells whoever found nothing that a glob may have been meant to begin at path.
func (c *common) noteGlob(path, glob string, nothing bool) {
	path = filepath.Clean(path)
	if nothing && path != "." && strings.Contains(glob, "/") && !strings.HasPrefix(glob, path+"/") {
		c.note("A glob with a slash is relative to the workspace, not to path: what lies in path begins with %s there.",
			files.Quote(path+"/"))
	}
}

// text has one entry on a line, a directory with a slash at its end.
func (o *listOut) text() string {
	var b strings.Builder
	for i, e := range o.Entries {
		if b.Len() > textLimit-8<<10 {
			fmt.Fprintf(&b, "[… %d more entries are left out here: give a limit or a path further down …]\n",
				len(o.Entries)-i)
			break
		}
		switch name := files.Name(e.Path); e.Type {
		case "directory":
			fmt.Fprintf(&b, "%s/\n", name)
		case "file":
			fmt.Fprintf(&b, "%s\t%d\n", name, e.Size)
		default:
			fmt.Fprintf(&b, "%s\t(%s)\n", name, e.Type)
		}
	}
	return paged(b.String(), len(o.Entries), "entries", o.NextCursor)
}

// paged says of a page in text whether there is another one.
func paged(text string, count int, what, next string) string {
	switch {
	case next != "":
		return fmt.Sprintf("%s[%d %s; the next page: cursor %s]", text, count, what, files.Quote(next))
	case count == 0:
		return "no " + what
	}
	return fmt.Sprintf("%s[%d %s]", text, count, what)
}

type searchIn struct {
	Pattern    string `json:"pattern"`
	Path       string `json:"path"`
	Glob       string `json:"glob"`
	IgnoreCase bool   `json:"ignore_case"`
	Context    *int   `json:"context"`
	Ignored    bool   `json:"include_ignored"`
	Limit      *int   `json:"limit"`
	Cursor     string `json:"cursor"`
}

type searchOut struct {
	common
	Matches       []files.Match `json:"matches"`
	NextCursor    string        `json:"next_cursor" jsonschema:"cursor of the next page; empty at the end"`
	FilesSearched int           `json:"files_searched" jsonschema:"on this page"`
	FilesSkipped  int           `json:"files_skipped" jsonschema:"files that are binary, over 8 MiB or unreadable"`
}

func (s *Set) addSearchFiles(server *mcp.Server) {
	add(s, server, &mcp.Tool{
		Name: "search_files",
		Description: "Search the lines of text files in the workspace for a regular expression (RE2 syntax). Files " +
			"that .gitignore or .ignore exclude are left out; so are binary files and files above 8 MiB, which a " +
			"notice names." + unusual,
		Annotations: hints("Search files", true, false, true, false),
	}, append(walkArguments,
		need("pattern", "string", "regular expression, matched against each line"),
		may("ignore_case", "boolean", "upper and lower case mean the same (default false)"),
		may("context", "integer", "lines to show before and after each match, 0 to 10 (default 0)"),
		may("limit", "integer", "matches on a page, 1 to 500 (default 100)")), s.searchFiles)
}

func (s *Set) searchFiles(ctx context.Context, _ *mcp.CallToolRequest, in searchIn) (*searchOut, error) {
	around, err := within("context", in.Context, 0, 0, 10)
	if err != nil {
		return nil, err
	}
	limit, err := within("limit", in.Limit, 100, 1, 500)
	if err != nil {
		return nil, err
	}
	glob, err := files.NewGlob(in.Glob)
	if err != nil {
		return nil, err
	}
	leave, err := s.runner.Walk(ctx, s.owner(ctx))
	if err != nil {
		return nil, err
	}
	defer leave()
	found, err := s.files.Search(ctx, files.Search{
		Walk:    files.Walk{Dir: in.Path, Glob: glob, Ignored: in.Ignored},
		Pattern: in.Pattern, IgnoreCase: in.IgnoreCase, Context: around, Limit: limit, Cursor: in.Cursor,
	})
	out := &searchOut{Matches: found.Matches, NextCursor: found.Next, FilesSearched: found.Searched,
		FilesSkipped: found.Skipped}
	for _, line := range found.Notices {
		out.note("%s", line)
	}
	out.noteGlob(in.Path, in.Glob, in.Cursor == "" && found.Searched == 0)
	return out, err
}

// breaks are characters within a line that a reader may take for its end.
var breaks = strings.NewReplacer("\r", `\r`, "\v", `\v`, "\f", `\f`, "\x1c", `\u001c`, "\x1d", `\u001d`,
	"\x1e", `\u001e`, "\u0085", `\u0085`, "\u2028", `\u2028`, "\u2029", `\u2029`)

// text is what grep -n prints: path:line:text, and path-line-text around it.
func (o *searchOut) text() string {
	var b strings.Builder
	for i, m := range o.Matches {
		if b.Len() > textLimit-16<<10 {
			fmt.Fprintf(&b, "[… %d more matches are left out here: give a limit, less context or a glob …]\n",
				len(o.Matches)-i)
			break
		}
		name := files.Name(m.Path)
		for j, line := range m.Before {
			fmt.Fprintf(&b, "%s-%d-%s\n", name, m.Line-len(m.Before)+j, breaks.Replace(line))
		}
		fmt.Fprintf(&b, "%s:%d:%s\n", name, m.Line, breaks.Replace(m.Text))
		for j, line := range m.After {
			fmt.Fprintf(&b, "%s-%d-%s\n", name, m.Line+1+j, breaks.Replace(line))
		}
		if len(m.Before)+len(m.After) > 0 && i < len(o.Matches)-1 {
			b.WriteString("--\n")
		}
	}
	return paged(b.String(), len(o.Matches), fmt.Sprintf("matches in %d files that were searched", o.FilesSearched),
		o.NextCursor)
}

// within is an optional number that must lie in a range.
func within(name string, value *int, otherwise, least, most int) (int, error) {
	if value == nil {
		return otherwise, nil
	}
	if *value < least || *value > most {
		return 0, fmt.Errorf("%s is %d: it must be between %d and %d", name, *value, least, most)
	}
	return *value, nil
}

package tool

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/sandboxd/files"
)

type writeIn struct {
	Path    string `json:"path"`
	Content string `json:"content"`
	Append  bool   `json:"append"`
}

type writeOut struct {
	common
	Path         string `json:"path" jsonschema:"the file written, relative to the workspace, symbolic links followed"`
	BytesWritten int    `json:"bytes_written"`
	Created      bool   `json:"created" jsonschema:"whether the file is new"`
}

func (o *writeOut) text() string {
	verb := "wrote"
	if o.Created {
		verb = "created"
	}
	return fmt.Sprintf("%s %s, %d bytes", verb, files.Name(o.Path), o.BytesWritten)
}

var writeProperties = []property{
	need("path", "string", "file to write, relative to the workspace"),
	need("content", "string", "the text to write"),
	may("append", "boolean", "add to the end of the file instead of replacing it (default false)"),
}

func (s *Set) addWriteFile(server *mcp.Server) {
	add(s, server, &mcp.Tool{
		Name: "write_file",
		Description: "Write a UTF-8 text file in the workspace, replacing it whole or appending to it. Up to 1 MiB " +
			"of content; missing directories are made; the mode of an existing file is kept. Either the whole change " +
			"is made or none of it." + s.protection(),
		Annotations: hints("Write a file", false, true, true, false),
	}, writeProperties, s.writeFile)
}

func (s *Set) writeFile(_ context.Context, _ *mcp.CallToolRequest, in writeIn) (*writeOut, error) {
	wrote, err := s.files.Write(in.Path, in.Content, in.Append)
	if err != nil {
		return nil, err
	}
	return &writeOut{Path: wrote.Path, BytesWritten: len(in.Content), Created: wrote.Created}, nil
}

// protection is what the descriptions of the writing tools say about it.
func (s *Set) protection() string {
	if len(s.cfg.Protected) == 0 {
		return ""
	}
	return " Files that other programs run by themselves (such as .git, shell start-up files, .envrc, .vscode, " +
		".mcp.json) are protected."
}

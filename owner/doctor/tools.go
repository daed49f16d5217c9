package doctor

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/owner/client"
)

// talk lets a client do what an assistant does, over both transports.
func (w *walk) talk() {
	sse := &mcp.SSEClientTransport{Endpoint: w.base.JoinPath("sse").String(), HTTPClient: w.client(true)}
	if s := w.connect("sse", sse); s != nil {
		w.list("sse", s)
		s.Close()
	}
	streamable := &mcp.StreamableClientTransport{Endpoint: w.base.JoinPath("mcp").String(), HTTPClient: w.client(true),
		MaxRetries: -1}
	s := w.connect("streamable", streamable)
	if s == nil {
		return
	}
	defer s.Close()
	if tools := w.list("streamable", s); tools != nil {
		w.call(s, tools)
	}
}

func (w *walk) connect(boundary string, t mcp.Transport) *mcp.ClientSession {
	// The context of Connect is also that of an SSE stream, so it is not bounded.
	ctx, cancel := context.WithCancel(w.ctx)
	limit := time.AfterFunc(w.opt.wait, cancel)
	start := time.Now()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "sallyport-doctor", Version: "1"}, nil).Connect(ctx, t, nil)
	if err != nil {
		cancel()
		w.found(boundary, "mcp-failed", "initialize: %v", err)
		return nil
	}
	limit.Stop()
	context.AfterFunc(w.ctx, cancel)
	info := s.InitializeResult()
	w.ok(boundary, "initialize: %s %s, protocol %s, %s", info.ServerInfo.Name, info.ServerInfo.Version,
		info.ProtocolVersion, since(start))
	return s
}

func (w *walk) list(boundary string, s *mcp.ClientSession) []string {
	ctx, cancel := context.WithTimeout(w.ctx, w.opt.wait)
	defer cancel()
	res, err := s.ListTools(ctx, nil)
	if err != nil {
		w.found(boundary, "mcp-failed", "tools/list: %v", err)
		return nil
	}
	names := []string{}
	for _, t := range res.Tools {
		names = append(names, t.Name)
	}
	w.ok(boundary, "tools/list: %s", strings.Join(names, ", "))
	return names
}

// call writes a file, reads it back by the other two tools, and removes it.
func (w *walk) call(s *mcp.ClientSession, tools []string) {
	name, content := ".sallyport-doctor-"+rand.Text(), "sallyport doctor\n"
	steps := []struct {
		tool string
		args map[string]any
		want string
	}{
		{"write_file", map[string]any{"path": name, "content": content}, ""},
		{"read_file", map[string]any{"path": name}, strings.TrimSpace(content)},
		{"run_command", map[string]any{"command": "cat " + name + "; rm -f " + name}, strings.TrimSpace(content)},
	}
	wrote := false
	for _, step := range steps {
		if !slices.Contains(tools, step.tool) {
			w.found(step.tool, "tool-not-granted", "not in tools/list")
			continue
		}
		want := step.want
		if !wrote {
			want = "" // nothing was written that could be read
			if step.tool == "read_file" {
				w.unseen(step.tool, "without write_file there is no file of ours to read")
				continue
			}
		}
		start := time.Now()
		text, err := w.use(s, step.tool, step.args)
		if err != nil || !strings.Contains(text, want) {
			w.found(step.tool, "tool-failed", "%v %s", err, text)
			continue
		}
		wrote = wrote || step.tool == "write_file"
		w.ok(step.tool, "%s", since(start))
		if step.tool == "run_command" && strings.Contains(text, "MCP_JAIL=group") {
			w.found("jail", "jail-off", "the result says so")
		}
	}
	if slices.Contains(tools, "run_command") {
		w.network(s)
		w.installation(s)
	} else if wrote {
		w.unseen("workspace", "without run_command doctor cannot remove its file "+name)
	}
}

// use calls one tool and returns its text. A tool error is an error.
func (w *walk) use(s *mcp.ClientSession, tool string, args map[string]any) (string, error) {
	ctx, cancel := context.WithTimeout(w.ctx, w.opt.wait+30*time.Second)
	defer cancel()
	res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return "", err
	}
	text := client.Text(res)
	if res.IsError {
		return text, fmt.Errorf("%s answers with an error:", tool)
	}
	return text, nil
}

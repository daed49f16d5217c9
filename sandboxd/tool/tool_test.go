package tool_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/jail"
	"github.com/sallyport-dev/sallyport/jail/jailtest"
	"github.com/sallyport-dev/sallyport/sandboxd/tool"
)

func TestMain(m *testing.M) {
	mountAsRoot()
	jailtest.Main(m)
}

// box is a workspace with a client that calls the tools over MCP.
type box struct {
	t       testing.TB
	dir     string // the workspace
	outside string // a directory beside it
	set     *tool.Set
	jail    *jail.Jail // the full one unless set before open
	client  *mcp.ClientSession
}

func newBox(t testing.TB, change ...func(*tool.Config)) *box {
	t.Helper()
	return newBoxIn(t, nil, change...)
}

func newBoxIn(t testing.TB, j *jail.Jail, change ...func(*tool.Config)) *box {
	t.Helper()
	base := t.TempDir()
	b := &box{t: t, jail: j, dir: filepath.Join(base, "work"), outside: filepath.Join(base, "work-evil")}
	private := filepath.Join(base, "private")
	for _, dir := range []string{b.dir, b.outside, private} {
		must(t, os.Mkdir(dir, 0o755))
	}
	must(t, os.WriteFile(filepath.Join(b.outside, "secret"), []byte("outside"), 0o644))
	b.open(private, change...)
	return b
}

// fullJail holds the commands of all boxes: building one tries each of its
// restrictions, which takes time.
var fullJail = sync.OnceValues(func() (*jail.Jail, error) {
	return jail.New(jail.Config{Mode: jail.Full, Network: jail.None, Writable: []string{os.TempDir()}})
})

// open builds the tools over b.dir and connects a client to them.
func (b *box) open(private string, change ...func(*tool.Config)) {
	b.t.Helper()
	root, err := os.OpenRoot(b.dir)
	must(b.t, err)
	if b.jail == nil {
		b.jail, err = fullJail()
		must(b.t, err)
	}
	cfg := tool.Config{Root: root, Jail: b.jail, Workspace: b.dir, Private: private, Network: jail.None, Enabled: tool.All}
	for _, f := range change {
		f(&cfg)
	}
	b.set, err = tool.New(cfg)
	must(b.t, err)
	b.client = connect(b.t, b.set, nil)
	b.t.Cleanup(func() {
		b.client.Close()
		must(b.t, b.set.Close())
		root.Close()
	})
}

func connect(t testing.TB, set *tool.Set, options *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	set.Register(server)
	return attach(t, server, options)
}

func attach(t testing.TB, server *mcp.Server, options *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	clientEnd, serverEnd := mcp.NewInMemoryTransports()
	session, err := server.Connect(t.Context(), serverEnd, nil)
	must(t, err)
	client, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, options).Connect(t.Context(), clientEnd, nil)
	must(t, err)
	t.Cleanup(func() { session.Close() })
	return client
}

type args = map[string]any

// raw calls a tool within a generous time.
func (b *box) raw(name string, in args) *mcp.CallToolResult {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Minute)
	defer cancel()
	res, err := b.client.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: in})
	if err != nil {
		b.t.Fatalf("%s: %v", name, err)
	}
	return res
}

// call calls a tool that must succeed and decodes its structured output.
func (b *box) call(name string, in args, out any) {
	b.t.Helper()
	res := b.raw(name, in)
	if res.IsError {
		b.t.Fatalf("%s(%v): %s", name, in, text(res))
	}
	decode(b.t, res, out)
}

// refused calls a tool that must answer with an error and returns its words.
func (b *box) refused(name string, in args) string {
	b.t.Helper()
	res := b.raw(name, in)
	if !res.IsError {
		b.t.Fatalf("%s(%v) succeeded: %.200s", name, in, text(res))
	}
	return text(res)
}

func decode(t testing.TB, res *mcp.CallToolResult, out any) {
	t.Helper()
	data, err := json.Marshal(res.StructuredContent)
	must(t, err)
	must(t, json.Unmarshal(data, out))
}

func text(res *mcp.CallToolResult) string {
	var all []string
	for _, c := range res.Content {
		all = append(all, c.(*mcp.TextContent).Text)
	}
	return strings.Join(all, "\n")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (b *box) path(name string) string { return filepath.Join(b.dir, name) }

func (b *box) put(name, content string) {
	b.t.Helper()
	must(b.t, os.MkdirAll(filepath.Dir(b.path(name)), 0o755))
	must(b.t, os.WriteFile(b.path(name), []byte(content), 0o644))
}

func (b *box) get(name string) string {
	b.t.Helper()
	data, err := os.ReadFile(b.path(name))
	must(b.t, err)
	return string(data)
}

// temps are the temporary files left anywhere in the workspace.
func (b *box) temps() (found []string) {
	filepath.WalkDir(b.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(filepath.Base(path), ".sandboxd-") {
			found = append(found, path)
		}
		return nil
	})
	return found
}

func TestDefinitions(t *testing.T) {
	b := newBox(t)
	list, err := b.client.ListTools(t.Context(), nil)
	must(t, err)
	var got []string
	for _, def := range list.Tools {
		got = append(got, def.Name)
		if def.Annotations == nil || def.Annotations.Title == "" || def.OutputSchema == nil || def.Description == "" {
			t.Errorf("%s: annotations, output schema or description missing", def.Name)
		}
		schema := def.InputSchema.(map[string]any)
		for name, p := range schema["properties"].(map[string]any) {
			if kind, ok := p.(map[string]any)["type"].(string); !ok || kind == "" {
				t.Errorf("%s.%s: the type must be a single word, got %v", def.Name, name, p)
			}
		}
	}
	want := slices.Sorted(slices.Values(tool.All))
	if !slices.Equal(got, want) {
		t.Errorf("tools %v, want %v", got, want)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, change := range map[string]func(*tool.Config){
		"unknown tool": func(c *tool.Config) { c.Enabled = []string{"run_commands"} },
		"tiny limit":   func(c *tool.Config) { c.OutputLimit = 10 },
		"no root":      func(c *tool.Config) { c.Root = nil },
		"no private":   func(c *tool.Config) { c.Private = "" },
	} {
		t.Run(name, func(t *testing.T) {
			root, err := os.OpenRoot(t.TempDir())
			must(t, err)
			defer root.Close()
			cfg := tool.Config{Root: root, Jail: &jail.Jail{}, Workspace: "/w", Private: t.TempDir()}
			if _, err := tool.New(cfg); err != nil {
				t.Fatalf("before the change: %v", err)
			}
			change(&cfg)
			if _, err := tool.New(cfg); err == nil {
				t.Error("accepted")
			}
		})
	}
}

func TestOnlyEnabledTools(t *testing.T) {
	b := newBox(t, func(c *tool.Config) { c.Enabled = []string{"read_file"} })
	if got := b.set.Names(); !slices.Equal(got, []string{"read_file"}) {
		t.Errorf("names %v", got)
	}
	if _, err := b.client.CallTool(t.Context(), &mcp.CallToolParams{Name: "write_file", Arguments: args{"path": "a", "content": "b"}}); err == nil {
		t.Error("write_file ran though it is not enabled")
	}
}

func TestBadArguments(t *testing.T) {
	b := newBox(t)
	for name, in := range map[string]args{
		"the argument":         {},
		"there is no argument": {"path": "a", "file": "b"},
		"path must be text":    {"path": 5},
	} {
		if words := b.refused("read_file", in); !strings.HasPrefix(words, name) {
			t.Errorf("%s: %s", name, words)
		}
	}
}

package tool_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/jail"
	"github.com/sallyport-dev/sallyport/sandboxd/tool"
)

// heard are the progress values that a client was sent.
type heard struct {
	mu     sync.Mutex
	values []float64
	two    chan bool // closed at the second
}

func (h *heard) options(t testing.TB) *mcp.ClientOptions {
	h.two = make(chan bool)
	return &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.values = append(h.values, req.Params.Progress); len(h.values) == 2 {
			close(h.two)
		}
		if req.Params.ProgressToken != "tok" || !strings.Contains(req.Params.Message, "running for") {
			t.Errorf("%+v", req.Params)
		}
	}}
}

func (h *heard) all() []float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.values)
}

// Progress reaches a client that asks for it, in sessions and, as since
// 2026-07-28, without.
func TestProgress(t *testing.T) {
	b := newBox(t)
	tool.SetProgressEvery(b.set, 20*time.Millisecond)
	for kind, connect := range map[string]func(testing.TB, *tool.Set, *mcp.ClientOptions) *mcp.ClientSession{"session": connect, "stateless HTTP": stateless} {
		t.Run(kind, func(t *testing.T) {
			var h heard
			client := connect(t, b.set, h.options(t))
			defer client.Close()
			call := func(meta mcp.Meta, command string) {
				res, err := client.CallTool(t.Context(), &mcp.CallToolParams{Meta: meta, Name: "run_command", Arguments: args{"command": command}})
				must(t, err)
				if res.IsError {
					t.Error(text(res))
				}
			}
			call(nil, "sleep 0.2")
			if got := h.all(); len(got) != 0 {
				t.Errorf("progress without a token: %v", got)
			}
			// The command ends when two notifications have come.
			os.Remove(b.path("go-on"))
			go func() {
				<-h.two
				os.WriteFile(b.path("go-on"), nil, 0o644)
			}()
			call(mcp.Meta{"progressToken": "tok"}, "while ! test -e go-on; do sleep 0.01; done")
			if got := h.all(); !slices.IsSorted(got) || len(got) < 2 || got[0] == got[1] {
				t.Errorf("progress %v", got)
			}
		})
	}
}

func stateless(t testing.TB, set *tool.Set, options *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	set.Register(server)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
	web := httptest.NewServer(handler)
	t.Cleanup(web.Close)
	client, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, options).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: web.URL}, nil)
	must(t, err)
	if got := client.InitializeResult().ProtocolVersion; got != "2026-07-28" {
		t.Fatalf("negotiated %s", got)
	}
	return client
}

func TestCancelledCallEndsTheCommand(t *testing.T) {
	b := newBox(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := b.client.CallTool(ctx, &mcp.CallToolParams{Name: "run_command", Arguments: args{"command": "echo $$ >pid; sleep 100"}})
		done <- err
	}()
	b.await("pid")
	cancel()
	if err := <-done; err == nil {
		t.Error("the cancelled call succeeded")
	}
	b.dead("pid")
}

// await waits until a command has written the file.
func (b *box) await(name string) string {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if data, err := os.ReadFile(b.path(name)); err == nil && strings.HasSuffix(string(data), "\n") {
			return strings.TrimSpace(string(data))
		}
		if time.Now().After(end) {
			b.t.Fatalf("no %s", name)
		}
	}
}

// dead waits until the process whose id stands in the file is gone.
func (b *box) dead(name string) {
	b.t.Helper()
	pid := b.await(name)
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat("/proc/" + pid); err != nil {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("process %s still lives", pid)
		}
	}
}

func TestNoticesAreInEveryResult(t *testing.T) {
	j, err := jail.New(jail.Config{Mode: jail.Group, Network: jail.None, Writable: []string{os.TempDir()}})
	must(t, err)
	defer j.Close()
	b := newBoxIn(t, j)
	want := fmt.Sprint(b.jail.Notices())
	if len(b.jail.Notices()) == 0 {
		t.Fatal("the downgraded jail has no notice")
	}
	b.put("f", "x")
	for name, in := range map[string]args{"run_command": {"command": "true"}, "read_file": {"path": "f"}, "write_file": {"path": "g", "content": "x"}} {
		var out struct{ Notices []string }
		if b.call(name, in, &out); fmt.Sprint(out.Notices) != want {
			t.Errorf("%s: %v", name, out.Notices)
		}
	}
	full := newBox(t)
	var quiet struct{ Notices []string }
	if full.call("run_command", args{"command": "true"}, &quiet); quiet.Notices != nil {
		t.Errorf("the full jail: %v", quiet.Notices)
	}
	if words := b.refused("read_file", args{"path": "missing"}); !strings.Contains(words, b.jail.Notices()[0]) {
		t.Errorf("an error: %s", words)
	}
}

func TestDescriptionsSayTheNetwork(t *testing.T) {
	for network, want := range map[jail.Network]string{jail.None: "no network, not even loopback", jail.Container: "the container's"} {
		b := newBox(t, func(c *tool.Config) { c.Network = network })
		list, err := b.client.ListTools(t.Context(), nil)
		must(t, err)
		for _, def := range list.Tools {
			if strings.Contains(def.Name, "_command") && strings.HasPrefix(def.Name, "run") && !strings.Contains(def.Description, want) {
				t.Errorf("%s with network %s: %s", def.Name, network, def.Description)
			}
		}
	}
}

// A burst of calls must not take more threads and processes than a container
// has: each waits for its place. One principal gets half of the places, so that
// another's command runs beside the largest burst.
func TestBurstOfCommands(t *testing.T) {
	const calls, share, places = 20, 8, 16
	b := newBox(t, func(c *tool.Config) { c.Principal = principal })
	var ended sync.WaitGroup
	burst := func(name string) {
		c := b.as(name)
		for i := range calls {
			ended.Go(func() {
				line := fmt.Sprintf("mkdir -p on; touch on/%s.%d; while ! test -e go-on; do sleep 0.05; done", name, i)
				res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "run_command", Arguments: args{"command": line, "timeout_seconds": 120}})
				if err != nil || res.IsError {
					t.Errorf("%s: %v, %v", name, text(res), err)
				}
			})
		}
	}
	running := func() int {
		names, _ := os.ReadDir(b.path("on"))
		return len(names)
	}
	await := func(n int, what string) {
		for end := time.Now().Add(time.Minute); running() < n && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(500 * time.Millisecond) // what a burst without a bound would take to go on
		if now := running(); now != n {
			t.Errorf("%s: %d commands run at once, want %d", what, now, n)
		}
	}
	burst("alice")
	await(share, "one principal")
	b.client = b.as("bob")
	if res, _ := b.run(args{"command": "true"}); res.ExitCode != 0 {
		t.Errorf("another principal beside the burst: %+v", res)
	}
	burst("carol")
	await(places, "two principals")
	must(t, os.WriteFile(b.path("go-on"), nil, 0o644))
	ended.Wait()
	if n := running(); n != 2*calls {
		t.Errorf("%d of %d ran", n, 2*calls)
	}
}

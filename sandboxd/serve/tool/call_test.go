package tool_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/sandboxd/jail"
	"github.com/sallyport-dev/sallyport/sandboxd/serve/tool"
)

func TestProgress(t *testing.T) {
	b := newBox(t)
	var mu sync.Mutex
	var seen []float64
	two := make(chan struct{})
	tool.SetProgressEvery(b.set, 20*time.Millisecond)
	client := connect(t, b.set, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			mu.Lock()
			defer mu.Unlock()
			if seen = append(seen, req.Params.Progress); len(seen) == 2 {
				close(two)
			}
			if req.Params.ProgressToken != "tok" || !strings.Contains(req.Params.Message, "running for") {
				t.Errorf("%+v", req.Params)
			}
		},
	})
	defer client.Close()
	call := func(meta mcp.Meta, command string) {
		res, err := client.CallTool(t.Context(), &mcp.CallToolParams{Meta: meta, Name: "run_command", Arguments: args{"command": command}})
		must(t, err)
		if res.IsError {
			t.Error(text(res))
		}
	}
	call(nil, "sleep 0.2")
	mu.Lock()
	if len(seen) != 0 {
		t.Errorf("progress without a token: %v", seen)
	}
	mu.Unlock()
	// The command ends when two notifications have come.
	go func() {
		<-two
		os.WriteFile(b.path("go-on"), nil, 0o644)
	}()
	call(mcp.Meta{"progressToken": "tok"}, "while ! test -e go-on; do sleep 0.01; done")
	mu.Lock()
	defer mu.Unlock()
	if !slices.IsSorted(seen) || len(seen) < 2 || seen[0] == seen[1] {
		t.Errorf("progress %v", seen)
	}
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

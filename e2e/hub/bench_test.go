//go:build bench

package hub

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// TestBenchHub measures the hub beside two other gateways, each before the same
// stdio server, in one run. Compare rows of one run, not runs.
func TestBenchHub(t *testing.T) {
	rig.Lock(t, "bench")
	modules, node := rig.NPM(t, "servers"), rig.NeedCommand(t, "node")
	s := prepare(t)
	dir := s.private("everything", "cp", "-r", modules+"/node_modules")
	entries := map[string]any{"everything": entry{"command": node, "args": []string{program(dir, "everything")}}}
	for n := range 10 { // asleep
		entries[fmt.Sprint("asleep", n)] = entry{"type": "unix", "socket": fmt.Sprint("/run/none", n)}
	}
	s.configure(entries)
	s.start()
	t.Logf("memory of the hub with 11 sleeping servers: %d KiB", resident(t, s.Process))
	begin := time.Now()
	session := rig.Connect(t, s.url+"/servers/everything", s.token, rig.Streamable)
	rig.TryCall(t, session, "echo", rig.Args{"message": "x"})
	t.Logf("first answer of a sleeping stdio server: %v", time.Since(begin).Round(time.Millisecond))

	server := []string{node, program(modules, "everything")}
	gateway := func(args ...string) string {
		addr := rig.FreeAddr(t)
		_, port, _ := strings.Cut(addr, ":")
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "PORT", port)
		}
		p := rig.Start(t, exec.Command(node, args...))
		rig.Until(t, args[0], func() bool { return rig.Status("http://"+addr) != 0 }, p)
		return "http://" + addr
	}
	rows := []struct{ name, base, token string }{
		{"sallyport-hub", s.url + "/servers/everything", s.token},
		{"supergateway 4.0.0", gateway(modules+"/node_modules/supergateway/dist/index.js", "--stdio", strings.Join(server, " "),
			"--outputTransport", "streamableHttp", "--stateful", "--port", "PORT", "--logLevel", "none"), ""},
		{"mcp-proxy 6.7.19", gateway(append([]string{modules + "/node_modules/mcp-proxy/dist/bin/mcp-proxy.mjs", "--port", "PORT", "--"}, server...)...), ""},
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	direct, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: exec.Command(server[0], server[1:]...)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	for _, clients := range []int{1, 4} {
		if clients == 1 {
			measure(t, "no gateway", []*mcp.ClientSession{direct})
		}
		for _, row := range rows {
			var sessions []*mcp.ClientSession
			for range clients {
				sessions = append(sessions, rig.Connect(t, row.base, row.token, rig.Streamable))
			}
			measure(t, row.name, sessions)
		}
	}
}

// TestBenchWake wakes the same program in a container and as a child, in turns.
func TestBenchWake(t *testing.T) {
	rig.Lock(t, "bench")
	b := startBoxes(t, "")
	program, err := builtBox()
	file := filepath.Join(t.TempDir(), "box")
	if err == nil {
		err = os.WriteFile(file, program, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := b.private("child", "cp", file)
	b.configure(map[string]any{"child": entry{"command": dir + "/box"}})
	b.says("child", "")
	session, wakes := rig.Connect(t, b.url+"/hub", b.token, rig.Streamable), map[string][]time.Duration{}
	do := func(tool, server string) {
		if result := rig.TryCall(t, session, tool, rig.Args{"server": server}); result.IsError {
			t.Fatalf("%s %s: %s", tool, server, rig.Text(result))
		}
	}
	do("sleep_server", "child")
	for range 40 {
		for _, server := range []string{"one", "child"} {
			begin := time.Now()
			do("wake_server", server)
			wakes[server] = append(wakes[server], time.Since(begin))
			do("sleep_server", server)
		}
	}
	for server, all := range wakes {
		slices.Sort(all)
		t.Logf("wake %-5s p50 %v, p90 %v, fastest %v", server, all[20].Round(time.Millisecond), all[36].Round(time.Millisecond), all[0].Round(time.Millisecond))
	}
}

// measure calls echo for a while from each session.
func measure(t *testing.T, name string, sessions []*mcp.ClientSession) {
	var mu sync.Mutex
	var all []time.Duration
	var failed atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	var wait sync.WaitGroup
	for _, session := range sessions {
		wait.Go(func() {
			for ctx.Err() == nil {
				begin := time.Now()
				_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: rig.Args{"message": "x"}})
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					failed.Add(1)
					return
				}
				mu.Lock()
				all = append(all, time.Since(begin))
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	if len(all) == 0 {
		t.Errorf("%s: no call succeeded", name)
		return
	}
	slices.Sort(all)
	at := func(q float64) time.Duration { return all[int(q*float64(len(all)-1))].Round(10 * time.Microsecond) }
	t.Logf("%-20s %d clients: %5d calls/s, p50 %v, p99 %v, failed %d", name, len(sessions), len(all)/4, at(0.5), at(0.99), failed.Load())
}

// resident is a process's resident memory in KiB.
func resident(t *testing.T, p *rig.Process) int {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "VmRSS:")
	kib, _ := strconv.Atoi(strings.Fields(rest)[0])
	return kib
}

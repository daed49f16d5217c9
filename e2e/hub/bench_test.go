//go:build bench

package hub

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/e2e/figures"
	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// gateway is one way to the same stdio server; without a process it is the client's own
// pipe to it.
type gateway struct {
	name, base, token string
	bound             bool // no rival: it shows what can be reached
	*rig.Process

	sessions           []*mcp.ClientSession
	rates, costs, size []float64 // by round: calls/s, its own µs per call, its own MiB
}

// TestBenchHub measures the hub beside two other gateways, each before the same
// stdio server, in interleaved rounds of one run. The servers themselves are not
// counted. The hub keeps its audit, as it is shipped; the others have none.
func TestBenchHub(t *testing.T) {
	rig.Lock(t, "bench")
	modules, node := rig.NPM(t, "servers"), rig.NeedCommand(t, "node")
	s := prepare(t)
	s.env = append(s.env, "MCP_AUDIT_FILE="+filepath.Join(s.own(filepath.Join(s.dir, "audit")), "audit.jsonl"))
	dir := s.private("everything", "cp", "-r", modules+"/node_modules")
	s.configure(map[string]any{"everything": entry{"command": node, "args": []string{program(dir, "everything")}}})
	s.start()
	// The hub's servers run at nice 10, behind the hub itself; so do the others' here,
	// or else what a busy machine gives to each would be compared.
	server := []string{"nice", "-n", strconv.Itoa(max(0, 10-niceness())), node, program(modules, "everything")}
	begin := time.Now()
	rig.TryCall(t, rig.Connect(t, s.url+"/servers/everything", s.token, rig.Streamable), "echo",
		rig.Args{"message": "x"})
	t.Logf("first answer of a sleeping stdio server: %v", time.Since(begin).Round(time.Millisecond))
	all := []*gateway{
		{name: "sallyport-hub", base: s.url + "/servers/everything", token: s.token, Process: s.Process},
		startGateway(t, "supergateway 4.0.0", node, modules+"/node_modules/supergateway/dist/index.js", "--stdio",
			strings.Join(server, " "),
			"--outputTransport", "streamableHttp", "--stateful", "--port", "PORT", "--logLevel", "none"),
		startGateway(t, "mcp-proxy 6.7.19", append([]string{node,
			modules + "/node_modules/mcp-proxy/dist/bin/mcp-proxy.mjs", "--port", "PORT", "--"}, server...)...),
		bareRelay(t, server),
		{name: "no gateway", bound: true},
	}
	for _, clients := range []int{1, 4} {
		for _, g := range all {
			g.sessions, g.rates, g.costs, g.size = nil, nil, nil, nil
			for range clients {
				session := g.connect(t, server)
				// the session's server starts, which takes node seconds
				rig.TryCall(t, session, "echo", rig.Args{"message": "x"})
				g.sessions = append(g.sessions, session)
			}
		}
		for round := range figures.Pick(5, 1) + 1 {
			for _, g := range all {
				g.measure(t, round > 0)
			}
		}
		for _, peer := range all[1:] {
			record(t, clients, all[0], peer)
		}
	}
}

func (g *gateway) connect(t *testing.T, server []string) *mcp.ClientSession {
	t.Helper()
	if g.Process != nil {
		return rig.Connect(t, g.base, g.token, rig.Streamable)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "sallyport-e2e", Version: "1"}, nil).
		Connect(t.Context(), &mcp.CommandTransport{Command: exec.Command(server[0], server[1:]...)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// niceness is this process's own, which it hands down (getpriority(2) gives 20 less it).
func niceness() int {
	value, _ := syscall.Getpriority(syscall.PRIO_PROCESS, 0) // it cannot fail for oneself
	return 20 - value
}

func record(t *testing.T, clients int, ours, peer *gateway) {
	t.Helper()
	name := fmt.Sprintf(", %d client(s), beside %s", clients, peer.name)
	calls := figures.Row{Group: "Hub", Work: "calls of a stdio server" + name, Unit: "calls/s", Alternative: peer.name,
		Ours: ours.rates, Theirs: peer.rates, Judge: figures.Ratio, Bar: 3}
	cpu := figures.Row{Group: "Hub", Work: "gateway's CPU per call" + name, Unit: "µs", Alternative: peer.name,
		Ours: ours.costs, Theirs: peer.costs, Judge: figures.Ratio, Less: true, Bar: 0.2}
	memory := figures.Row{Group: "Hub", Work: "gateway's memory (RSS)" + name, Unit: "MiB", Alternative: peer.name,
		Ours: ours.size, Theirs: peer.size, Judge: figures.Ratio, Less: true, Bar: 0.2}
	if clients > 1 { // theirs share one server
		calls.Bar, calls.Aim = 2, 3
	}
	rows := []figures.Row{calls, cpu, memory}
	if peer.bound { // what a gateway can reach at most
		rows = rows[:2]
	}
	if peer.Process == nil {
		rows = rows[:1]
	}
	for _, r := range rows {
		if peer.bound {
			r.Bar, r.Aim = 0, 0
		}
		figures.Add(t, r)
	}
}

// startGateway starts one on a free port, which stands for PORT.
func startGateway(t *testing.T, name string, args ...string) *gateway {
	t.Helper()
	addr := rig.FreeAddr(t)
	_, port, _ := strings.Cut(addr, ":")
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "PORT", port)
	}
	p := rig.Start(t, exec.Command(args[0], args[1:]...))
	rig.Until(t, name, func() bool { return rig.Status("http://"+addr) != 0 }, p)
	return &gateway{name: name, base: "http://" + addr, Process: p}
}

// TestBenchServers records how the hub's memory grows with servers that sleep.
func TestBenchServers(t *testing.T) {
	rig.Lock(t, "bench")
	curve := figures.Row{Group: "Growth", Work: "memory of the hub (RSS), sleeping servers", Unit: "MiB",
		Judge: figures.Itself, Less: true, Of: "servers"}
	for _, n := range figures.Pick([]int{1, 10, 30, 100}, []int{1, 10}) {
		s := prepare(t)
		entries := map[string]any{}
		for i := range n {
			entries[fmt.Sprint("asleep", i)] = entry{"type": "unix", "socket": fmt.Sprint("/run/none", i)}
		}
		s.configure(entries)
		s.start()
		time.Sleep(figures.Pick(2*time.Second, 100*time.Millisecond))
		curve.X, curve.Ours = append(curve.X, float64(n)), append(curve.Ours, float64(s.Resident(t))/(1<<20))
		s.Stop()
	}
	figures.Add(t, curve)
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
	session, wakes := rig.Connect(t, b.url+"/hub", b.token, rig.Streamable), map[string][]float64{}
	do := func(tool, server string) {
		if result := rig.TryCall(t, session, tool, rig.Args{"server": server}); result.IsError {
			t.Fatalf("%s %s: %s", tool, server, rig.Text(result))
		}
	}
	do("sleep_server", "child")
	for range figures.Pick(40, 3) {
		for _, server := range []string{"one", "child"} {
			begin := time.Now()
			do("wake_server", server)
			wakes[server] = append(wakes[server], time.Since(begin).Seconds()*1000)
			do("sleep_server", server)
		}
	}
	figures.Add(t, figures.Row{Group: "Hub", Work: "wake a server in a container", Unit: "ms",
		Alternative: "as a child of the hub",
		Ours:        wakes["one"], Theirs: wakes["child"], Judge: figures.Itself, Less: true})
}

// fewest is how many calls a round has at least: a handful says nothing, which is
// what half a second holds on a busy machine.
const fewest = 200

// measure calls echo for a while from each session.
func (g *gateway) measure(t *testing.T, keep bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), rig.Deadline)
	defer cancel()
	var wait sync.WaitGroup
	var calls atomic.Int64
	cpu := func() time.Duration {
		if g.Process == nil {
			return 0
		}
		return g.CPU()
	}
	before, begin, long := cpu(), time.Now(), figures.Pick(4*time.Second, 500*time.Millisecond)
	for _, session := range g.sessions {
		wait.Go(func() {
			for time.Since(begin) < long || calls.Load() < fewest {
				_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: rig.Args{"message": "x"}})
				if err != nil {
					t.Errorf("%s: %v", g.name, err)
					return
				}
				calls.Add(1)
			}
		})
	}
	wait.Wait()
	n, took := float64(calls.Load()), time.Since(begin)
	if keep && n >= fewest {
		g.rates = append(g.rates, n/took.Seconds())
		if g.Process != nil {
			g.costs = append(g.costs, float64((cpu()-before).Nanoseconds())/1000/n)
			g.size = append(g.size, float64(g.Resident(t))/(1<<20))
		}
	}
}

//go:build bench

package bench_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/e2e/figures"
	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// tools/call read_file of 1 KiB, beside an mcp-go server with the same tool and
// without any of the restrictions.
func TestBenchReadFile(t *testing.T) {
	asked(t)
	ours, peer := servers(t)
	for _, how := range []rig.Transport{rig.SSE, rig.Streamable} {
		var rows []*row
		for _, s := range []server{ours, peer} {
			sessions := make(chan *mcp.ClientSession, 16)
			for range cap(sessions) {
				sessions <- rig.Connect(t, s.base, s.token, how)
			}
			rows = append(rows, &row{name: s.name, do: func() error {
				session := <-sessions
				defer func() { sessions <- session }()
				_, err := session.CallTool(context.Background(), &mcp.CallToolParams{Name: "read_file", Arguments: rig.Args{"path": "1KiB"}})
				return err
			}, cpu: s.CPU})
		}
		compare(t, "read_file of 1 KiB over "+string(how), 16, figures.Pick(3*time.Second, 500*time.Millisecond), rows)
		name := transportName(how)
		figures.Add(t, figures.Row{Group: "Tools", Work: "read_file of 1 KiB, 16 clients, " + name, Unit: "calls/s", Alternative: peer.name,
			Ours: rows[0].rates, Theirs: rows[1].rates, Judge: figures.Ratio, Bar: 0.8, Aim: 1})
		figures.Add(t, figures.Row{Group: "Tools", Work: "read_file of 1 KiB, the server's CPU, " + name, Unit: "µs", Alternative: peer.name,
			Ours: rows[0].costs, Theirs: rows[1].costs, Judge: figures.Ratio, Less: true})
	}
}

// How the time of one call grows with the file and with a command's output.
func TestBenchSizes(t *testing.T) {
	asked(t)
	ours, _ := servers(t)
	session := rig.Connect(t, ours.base, ours.token, rig.Streamable)
	sizes := figures.Pick([]float64{1 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20}, []float64{1 << 10, 64 << 10})
	for _, curve := range []struct {
		work string
		most float64
		call func(size int) (tool string, arguments rig.Args)
	}{
		{"read_file", 1 << 20, func(size int) (string, rig.Args) {
			name := fmt.Sprint("size", size)
			if err := os.WriteFile(filepath.Join(ours.workspace, name), []byte(strings.Repeat("0123456789abcde\n", size/16)), 0o644); err != nil {
				t.Fatal(err)
			}
			return "read_file", rig.Args{"path": name}
		}},
		{"write_file", 1 << 20, func(size int) (string, rig.Args) {
			return "write_file", rig.Args{"path": "written", "content": strings.Repeat("0123456789abcde\n", size/16)}
		}},
		{"output of run_command", 256 << 10, func(size int) (string, rig.Args) {
			return "run_command", rig.Args{"command": fmt.Sprintf("head -c %d /dev/zero | tr '\\0' o", size)}
		}},
	} {
		r := figures.Row{Group: "Growth", Work: "one call, " + curve.work, Unit: "ms", Judge: figures.Itself, Less: true, Of: "bytes"}
		for _, size := range sizes {
			if size > curve.most {
				continue
			}
			tool, arguments := curve.call(int(size))
			var took []float64
			for range figures.Pick(30, 3) {
				begin := time.Now()
				rig.Call(t, session, tool, arguments)
				took = append(took, time.Since(begin).Seconds()*1000)
			}
			r.X, r.Ours = append(r.X, size), append(r.Ours, figures.Median(took))
		}
		figures.Add(t, r)
	}
}

// From the start of the process to its readiness, self-test included, and what it
// then has in memory.
func TestBenchStart(t *testing.T) {
	asked(t)
	var took, theirs, memory, peers []float64
	token, file := rig.NewToken(t)
	bin, peer, workspace := rig.Binary(t, "sandboxd"), buildPeer(t), rig.PublicDir(t)
	ready := func(url, token string, cmd *exec.Cmd, want int) (float64, float64) {
		begin := time.Now()
		p := rig.Start(t, cmd)
		for get(url, token) != want {
			if time.Since(begin) > rig.Deadline {
				t.Fatalf("%s is not ready", cmd.Path)
			}
			time.Sleep(time.Millisecond)
		}
		ms := time.Since(begin).Seconds() * 1000
		time.Sleep(figures.Pick(2*time.Second, 100*time.Millisecond)) // what it does after it is ready
		mib := float64(p.Resident(t)) / (1 << 20)
		p.Stop()
		return ms, mib
	}
	for range figures.Pick(9, 2) {
		addr := rig.FreeAddr(t)
		cmd := exec.Command(bin)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "MCP_ADDR=" + addr, "MCP_WORKSPACE=" + workspace, "MCP_AUTH_TOKEN_FILE=" + file}
		ms, mib := ready("http://"+addr+"/healthz", token, cmd, 200)
		took, memory = append(took, ms), append(memory, mib)
		addr = rig.FreeAddr(t)
		ms, mib = ready("http://"+addr+"/nowhere", "", exec.Command(peer, "-addr", addr, "-dir", workspace), 404)
		theirs, peers = append(theirs, ms), append(peers, mib)
	}
	figures.Add(t, figures.Row{Group: "Start", Work: "sandboxd, start to ready, self-test included", Unit: "ms", Alternative: "mcp-go, no restrictions",
		Ours: took, Theirs: theirs, Judge: figures.Itself, Less: true, Bar: 150, Aim: 100})
	figures.Add(t, figures.Row{Group: "Start", Work: "sandboxd, memory when idle (RSS, both processes)", Unit: "MiB", Alternative: "mcp-go, no restrictions",
		Ours: memory, Theirs: peers, Judge: figures.Itself, Less: true, Bar: 20, Aim: 12})
}

type server struct {
	*rig.Process
	name, base, token, workspace string
}

// servers starts sandboxd and the peer on one folder with a file of 1 KiB.
func servers(t *testing.T) (ours, peer server) {
	t.Helper()
	s := rig.StartSandboxd(t, rig.SandboxdOptions{Env: []string{"MCP_MAX_SESSIONS=20000"}})
	if err := os.WriteFile(filepath.Join(s.Workspace, "1KiB"), []byte(strings.Repeat("0123456789abcde\n", 64)), 0o644); err != nil {
		t.Fatal(err)
	}
	addr := rig.FreeAddr(t)
	p := rig.Start(t, exec.Command(buildPeer(t), "-addr", addr, "-dir", s.Workspace))
	rig.Until(t, "the peer", func() bool { return rig.Status("http://"+addr+"/nowhere") == 404 }, p)
	return server{s.Process, "sandboxd", s.URL + "/mcp-sandbox", s.Token, s.Workspace}, server{p, "mcp-go", "http://" + addr, "", s.Workspace}
}

func buildPeer(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "peer")
	if out, err := exec.Command("go", "build", "-o", bin, "./peer").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// get is the status of a GET, 0 where nobody listens yet.
func get(url, token string) int {
	resp, err := rig.HTTPClient(token).Get(url)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

//go:build bench

package bench_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// tools/call read_file of 1 KiB, beside an mcp-go server with the same tool and
// without any of the restrictions.
func TestBenchReadFile(t *testing.T) {
	asked(t)
	ours, peer := servers(t)
	for _, how := range []rig.Transport{rig.SSE, rig.Streamable} {
		var rows []row
		for _, s := range []server{ours, peer} {
			sessions := make(chan *mcp.ClientSession, 16)
			for range cap(sessions) {
				sessions <- rig.Connect(t, s.base, s.token, how)
			}
			rows = append(rows, row{s.name, func() error {
				session := <-sessions
				defer func() { sessions <- session }()
				_, err := session.CallTool(context.Background(), &mcp.CallToolParams{Name: "read_file", Arguments: rig.Args{"path": "1KiB"}})
				return err
			}, cpu(s.Process)})
		}
		compare(t, "read_file of 1 KiB over "+string(how), 16, 3*time.Second, rows)
	}
}

// What an idle SSE session costs in memory.
func TestBenchIdleSessions(t *testing.T) {
	asked(t)
	const sessions = 1000
	ours, peer := servers(t)
	for _, s := range []server{ours, peer} {
		rig.Connect(t, s.base, s.token, rig.SSE) // the first one brings what is there once
		before := resident(t, s.Process)
		var all sync.WaitGroup
		gate := make(chan struct{}, 32)
		for range sessions {
			gate <- struct{}{}
			all.Go(func() {
				defer func() { <-gate }()
				session, err := rig.TryConnect(t.Context(), s.base, s.token, rig.SSE)
				if err != nil {
					t.Error(err)
					return
				}
				t.Cleanup(func() { session.Close() })
			})
		}
		all.Wait()
		each := func() float64 { return float64(resident(t, s.Process)-before) / 1024 / sessions }
		at := each()
		time.Sleep(130 * time.Second) // until the runtimes have given back what was garbage
		t.Logf("%s: %.1f KiB for each of %d idle SSE sessions, %.1f KiB two minutes later (%d MiB before)",
			s.name, at, sessions, each(), before>>20)
	}
}

type server struct {
	*rig.Process
	name, base, token string
}

// servers starts sandboxd and the peer on one folder with a file of 1 KiB.
func servers(t *testing.T) (ours, peer server) {
	t.Helper()
	s := rig.StartSandboxd(t, rig.SandboxdOptions{Env: []string{"MCP_MAX_SESSIONS=2000"}})
	if err := os.WriteFile(filepath.Join(s.Workspace, "1KiB"), []byte(strings.Repeat("0123456789abcde\n", 64)), 0o644); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(t.TempDir(), "peer")
	if out, err := exec.Command("go", "build", "-o", bin, "./peer").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	addr := rig.FreeAddr(t)
	p := rig.Start(t, exec.Command(bin, "-addr", addr, "-dir", s.Workspace))
	rig.Until(t, "the peer", func() bool { return rig.Status("http://"+addr+"/nowhere") == 404 }, p)
	return server{s.Process, "sandboxd", s.URL + "/mcp-sandbox", s.Token}, server{p, "mcp-go", "http://" + addr, ""}
}

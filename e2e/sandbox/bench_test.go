//go:build bench

package sandbox

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// TestBenchShell measures `true` in the sandbox, as a tool call through MCP and as
// docker exec runs it in the same container.
// They take turns by rounds: what docker exec starts would empty the caches
// before each single call. The client reaches the server as Traefik does, without
// Docker's port proxy. Figures are reported, never asserted.
func TestBenchShell(t *testing.T) {
	d := rig.NeedImages(t)
	rig.Lock(t, "bench")
	id := d.Container(serve(t)...)
	addr := d.Run("inspect", "-f", "{{.NetworkSettings.IPAddress}}", id) + ":8000"
	rig.Until(t, "the sandbox's health", func() bool { return rig.Status("http://"+addr+"/healthz") == 200 })
	session := rig.Connect(t, "http://"+addr+"/mcp-sandbox", strings.Repeat("t", 43), rig.Streamable)
	ways := []struct {
		name string
		run  func()
	}{
		{"run_command through MCP", func() { rig.Call(t, session, "run_command", rig.Args{"command": "true"}) }},
		{"docker exec", func() { d.Run("exec", id, "/bin/sh", "-c", "true") }},
	}
	took := make([][]time.Duration, len(ways))
	for range 9 {
		for i, w := range ways {
			for range 40 {
				begin := time.Now()
				w.run()
				took[i] = append(took[i], time.Since(begin))
			}
		}
	}
	for i, w := range ways {
		slices.Sort(took[i])
		t.Logf("%-24s p50 %v, p95 %v", w.name, middle(took[i]), took[i][len(took[i])*95/100])
	}
	t.Logf("docker exec takes %.1f times as long", float64(middle(took[1]))/float64(middle(took[0])))
}

// middle is the median of what is sorted.
func middle(took []time.Duration) time.Duration { return took[len(took)/2] }

//go:build bench

package sandbox

import (
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/figures"
	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// TestBenchShell measures `true` in the sandbox, as a tool call through MCP and as
// docker exec runs it in the same container.
// They take turns by rounds: what docker exec starts would empty the caches
// before each single call. The client reaches the server as Traefik does, without
// Docker's port proxy. Figures are recorded, never asserted.
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
	rounds := make([][]float64, len(ways)) // medians, ms
	for range figures.Pick(9, 2) {
		for i, w := range ways {
			var took []float64
			for range figures.Pick(40, 3) {
				begin := time.Now()
				w.run()
				took = append(took, time.Since(begin).Seconds()*1000)
			}
			rounds[i] = append(rounds[i], figures.Median(took))
		}
	}
	figures.Add(t, figures.Row{Group: "Tools", Work: "run_command `true` through MCP", Unit: "ms", Alternative: "docker exec",
		Ours: rounds[0], Theirs: rounds[1], Judge: figures.Times, Bar: 15, Aim: 25})
}

//go:build bench

package bench_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/figures"
	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/e2e/tools"
)

// Ten thousand idle sessions in the locked container of 512 MiB, and how long a
// command takes beside them. The client reaches the server as Traefik does, without
// Docker's port proxy.
func TestBenchCrowd(t *testing.T) {
	d := rig.NeedImages(t)
	asked(t)
	most := figures.Pick(10_000, 50)
	moreDescriptors(most + 1000)
	for _, how := range []rig.Transport{rig.SSE, rig.Streamable} {
		t.Run(string(how), func(t *testing.T) { crowd(t, d, how, most) }) // its connections end with it
	}
}

func crowd(t *testing.T, d *rig.Docker, how rig.Transport, most int) {
	dir := rig.PublicDir(t)
	token := strings.Repeat("t", 43)
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	id := d.Container(append(rig.Locked("64777", "-v", rig.Binary(t, "sandboxd")+":/sandboxd:ro", "-v", file+":/run/token:ro",
		"--ulimit", fmt.Sprintf("nofile=%d", most+1000), "-e", "MCP_IN_CONTAINER=true", "-e", "MCP_ADDR=:8000", "-e", "MCP_ALLOWED_HOSTS=*",
		"-e", "MCP_WORKSPACE=/workspace", "-e", "MCP_AUTH_TOKEN_FILE=/run/token", "-e", fmt.Sprintf("MCP_MAX_SESSIONS=%d", most+10)),
		tools.DebianImage, "/sandboxd", "serve")...)
	defer d.Run("stop", "--time", "2", id) // before the other transport's
	addr := d.Run("inspect", "-f", "{{.NetworkSettings.IPAddress}}", id) + ":8000"
	rig.Until(t, "the sandbox's health", func() bool { return rig.Status("http://"+addr+"/healthz") == 200 })
	s := server{name: "sandboxd", base: "http://" + addr + "/mcp-sandbox", token: token}
	idle(t, s, how, most)
	work := fmt.Sprintf("%d idle sessions in a container of 512 MiB, %s", most, transportName(how))
	beside(t, s, work+": run_command, p99")
	if state := d.Run("inspect", "-f", "{{.State.Running}} {{.State.OOMKilled}} {{.RestartCount}}", id); state != "true false 0" {
		t.Errorf("running, killed for memory, restarts: %s", state)
	}
	figures.Add(t, figures.Row{Group: "Sessions", Work: work + ": all the container's memory", Unit: "MiB",
		Ours: []float64{containerMiB(t, d, id)}, Judge: figures.Itself, Less: true, Bar: 512})
}

// containerMiB is what the engine says that a container uses.
func containerMiB(t *testing.T, d *rig.Docker, id string) float64 {
	t.Helper()
	said := d.Run("stats", "--no-stream", "--format", "{{.MemUsage}}", id)
	var n float64
	var unit string
	if _, err := fmt.Sscanf(strings.Replace(said, "iB", " iB", 1), "%f%s", &n, &unit); err != nil {
		t.Fatalf("%s: %v", said, err)
	}
	switch unit {
	case "G":
		n *= 1024
	case "K":
		n /= 1024
	}
	return n
}

package sandbox

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// fillScratch takes all the memory that files can take where commands of a container write, which
// outlive them: in sizes as in docker-compose.yml, here an eighth of those.
const fillScratch = `for d in /tmp /dev/shm $TMPDIR; do
perl -e 'for (1..80000) { open(my $f, ">", "$ARGV[0]/$_") or last }' $d
head -c 600M /dev/zero >$d/1 2>/dev/null
done; echo filled; df -m --output=used /tmp /dev/shm $TMPDIR | tail -3 | tr -d ' ' | paste -sd+`

// Files that commands leave in memory do not end the server, where it is started as docker-compose.yml
// starts it. With less memory than those files can take they do, and the start says so.
func TestFullScratchLeavesServer(t *testing.T) {
	d := rig.NeedImages(t)
	rig.Lock(t, "cpu")
	sizes := []string{"--tmpfs", "/tmp:exec,mode=1777,size=64m,nr_inodes=8k", "--tmpfs", "/private:exec,mode=1777,size=64m,nr_inodes=32k",
		"--tmpfs", "/dev/shm:mode=1777,size=8m,nr_inodes=2k", "--tmpfs", "/workspace:exec,uid=" + uid + ",size=8m,nr_inodes=1k",
		"-v", "/usr:/usr:ro", "-p", "127.0.0.1::8000"}
	for _, c := range []struct {
		memory         string
		survives, said bool
	}{{"608m", true, false}, {"160m", false, true}} {
		id := d.Container(serve(t, append(sizes, "--memory", c.memory, "--memory-swap", c.memory)...)...)
		addr := strings.TrimSpace(d.Run("port", id, "8000"))
		rig.Until(t, "the sandbox's health", func() bool { return rig.Status("http://"+addr+"/healthz") == 200 })
		session := rig.Connect(t, "http://"+addr+"/mcp-sandbox", strings.Repeat("t", 43), rig.Streamable)
		for range 3 { // the kernel ends commands first
			_, _ = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "run_command",
				Arguments: rig.Args{"command": fillScratch, "timeout_seconds": 60}})
		}
		log, _ := exec.Command("docker", "logs", id).CombinedOutput()
		if said := strings.Contains(string(log), "can fill the"); said != c.said {
			t.Errorf("%s: said %v: %s", c.memory, said, log)
		}
		died := func() bool {
			return strings.HasPrefix(d.Run("inspect", "-f", "{{.State.ExitCode}} {{.State.OOMKilled}}", id), "137 true")
		}
		for deadline := time.Now().Add(10 * time.Second); !c.survives && !died() && time.Now().Before(deadline); {
			time.Sleep(100 * time.Millisecond)
		}
		if died() == c.survives {
			t.Errorf("%s: ended %v", c.memory, died())
		}
		if c.survives {
			if got := call(t, session, work{script: fillScratch}); !strings.Contains(got.text, "filled") {
				t.Errorf("%s: %s", c.memory, got.text)
			}
		}
	}
}

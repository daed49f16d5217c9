package doctor_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// The first minutes of a new user: a fresh clone, make run, doctor in a second
// terminal with no argument at all, a client, Ctrl-C.
func TestFirstMinutes(t *testing.T) {
	rig.Lock(t, "stack") // port 18080
	c := rig.NewCheckout(t, 0)
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	c.Env = append(c.Env, "GOCACHE="+strings.TrimSpace(string(cache)))
	run := rig.Start(t, c.Command("make", "run"))
	rig.Until(t, "make run to serve", func() bool { return strings.Contains(run.Log.String(), "Stop with Ctrl-C") }, run)

	out, err := c.Command("bin/sallyport", "doctor").CombinedOutput()
	if err != nil || !strings.Contains(string(out), " 0 warn, 0 fail\n") {
		t.Errorf("doctor: %v\n%s", err, out)
	}
	token := c.Read(".sallyport/edge/client-token")
	for _, how := range []rig.Transport{rig.SSE, rig.Streamable} {
		rig.UseThreeTools(t, rig.Connect(t, "http://127.0.0.1:18080/mcp-sandbox", token, how))
	}
	if strings.Contains(run.Log.String()+string(out), token) {
		t.Error("the token was printed")
	}
	syscall.Kill(-run.Cmd.Process.Pid, syscall.SIGINT)
	<-run.Done
	if got := rig.Status("http://127.0.0.1:18080/healthz"); got != 0 {
		t.Errorf("after Ctrl-C something still answers: %d", got)
	}
}

// Without Compose make up says what it needs, and has written nothing. (docker itself answers
// "compose up" with all of its help then.) The twin writes what it would have.
func TestUpWithoutCompose(t *testing.T) {
	c := rig.NewCheckout(t, 0)
	out, err := c.Command("make", "up", "COMPOSE=false").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "Docker with Compose 2.24 or newer") ||
		!strings.Contains(string(out), "Without Docker: make run") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(c.Dir, ".env")); err == nil {
		t.Error("it wrote .env")
	}
	if c.Make("env"); c.Read(".env") == "" {
		t.Error("make env wrote no .env")
	}
}

// The hub by hand, with the lines that stand in docs/hub.md: it serves the file, and the
// owner's verbs find it in the same folder.
func TestHubByHand(t *testing.T) {
	rig.Lock(t, "stack") // port 18081
	c := rig.NewCheckout(t, 0)
	_, lines, found := strings.Cut(c.Read("docs/hub.md"), "By hand, ")
	_, lines, more := strings.Cut(lines, "```sh\n")
	lines, _, _ = strings.Cut(lines, "```")
	if !found || !more || !strings.HasSuffix(lines, "\nbin/sallyport-hub\n") {
		t.Fatalf("the page has no such lines: %s", lines)
	}
	if err := os.MkdirAll(filepath.Join(c.Dir, "config"), 0o700); err != nil {
		t.Fatal(err)
	}
	servers := `{"mcpServers": {"notes": {"type": "unix", "socket": "/nowhere"}}}`
	if err := os.WriteFile(filepath.Join(c.Dir, "config", "mcp.json"), []byte(servers), 0o600); err != nil {
		t.Fatal(err)
	}
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	c.Env = append(c.Env, "GOCACHE="+strings.TrimSpace(string(cache)))
	hub := rig.Start(t, c.Command("sh", "-c", "set -e\n"+strings.Replace(lines, "\nbin/", "\nexec bin/", 1)))
	rig.Until(t, "the hub to serve", func() bool { return strings.Contains(hub.Log.String(), "serving") }, hub)
	out, err := c.Command("bin/sallyport", "servers").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "notes") {
		t.Errorf("%v %s\n%s", err, out, hub.Log.String())
	}
}

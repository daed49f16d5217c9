package docker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// firstVersion is what make env of version 0.1 wrote, by file.
var firstVersion = map[string]string{
	".sallyport/edge/client-token": strings.Repeat("c0ffee01", 8) + "\n",
	".sallyport/sandbox-token":     strings.Repeat("5a4db0c5", 8) + "\n",
	".sallyport/hub-token":         strings.Repeat("4b0070c3", 8) + "\n",
	"config/mcp.json":              `{"mcpServers": {}}` + "\n",
	".env": "# Written by make env; .env.example explains each line and what else may stand here.\n" +
		"SALLYPORT_WORKSPACE='DIR'\nSALLYPORT_UID=1000\nSALLYPORT_GID=1000\nSALLYPORT_TMPFS_SIZE=256m\n",
}

// An installation of version 0.1 is upgraded by make up: its tokens and settings
// stay, keys that its .env lacks are added, and doctor finds nothing wrong.
func TestUpgrade(t *testing.T) {
	d := rig.NeedImages(t)
	c := rig.NewCheckout(t, 1000)
	for _, dir := range []string{"workspace", ".sallyport/edge", ".sallyport/hub-state/pins", ".sallyport/proxy", ".sallyport/secrets", "config"} {
		if err := os.MkdirAll(filepath.Join(c.Dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range firstVersion {
		text = strings.ReplaceAll(text, "DIR", filepath.Join(c.Dir, "workspace"))
		if err := os.WriteFile(filepath.Join(c.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	chown(t, c)
	https := c.Stack(d)
	said := c.Make("up")
	if !strings.Contains(said, "Added SALLYPORT_CPUS=") {
		t.Errorf("make up does not name the key that it adds:\n%s", said)
	}
	env := c.Read(".env")
	for _, line := range []string{"SALLYPORT_TMPFS_SIZE=256m", "SALLYPORT_UID=1000", "SALLYPORT_CPUS="} {
		if strings.Count(env, line) != 1 {
			t.Errorf(".env does not hold %s once:\n%s", line, env)
		}
	}
	if c.Read(".sallyport/edge/client-token") != strings.TrimSpace(firstVersion[".sallyport/edge/client-token"]) {
		t.Error("the client token is another one")
	}
	out, err := c.Command(rig.Binary(t, "sallyport"), "doctor", "-insecure", "-token-file", ".sallyport/edge/client-token", "https://"+https+"/mcp-sandbox/sse").CombinedOutput()
	if err != nil || strings.Contains(string(out), "\nfail ") {
		t.Errorf("doctor: %v\n%s", err, out)
	}
	old := c.Command("docker", "compose", "exec", "-T", "sandboxd", "sandboxd", "doctor")
	if out, _ := old.CombinedOutput(); old.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "use sallyport doctor") {
		t.Errorf("the old verb: %s", out)
	}
}

// chown gives what the test wrote to the checkout's user.
func chown(t *testing.T, c *rig.Checkout) {
	t.Helper()
	err := filepath.WalkDir(c.Dir, func(name string, _ os.DirEntry, err error) error {
		if err == nil {
			err = os.Lchown(name, int(c.UID), int(c.UID))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

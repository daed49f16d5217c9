package doctor_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/e2e/tools"
)

// A server that is bound to its container's own loopback: the port is published,
// the log says that it listens, and nothing reaches it. The container also lacks
// every restriction, and has its token in its environment.
func TestServerOnItsContainersLoopback(t *testing.T) {
	d := rig.NeedImages(t)
	token, file := rig.NewToken(t)
	addr := rig.FreeAddr(t)
	id := d.Container("--publish", addr+":8000", "--tmpfs", "/workspace:mode=1777", "--tmpfs", "/private:exec,mode=1777",
		"--volume", rig.Binary(t, "sandboxd")+":/sandboxd:ro",
		"--env", "MCP_ADDR=127.0.0.1:8000", "--env", "MCP_IN_CONTAINER=true", "--env", "MCP_WORKSPACE=/workspace",
		"--env", "MCP_JAIL=group", "--env", "MCP_AUTH_TOKEN="+token,
		tools.DebianImage, "/sandboxd", "serve")
	rig.Until(t, "the server to listen, as its log says", func() bool {
		out, _ := exec.Command("docker", "logs", id).CombinedOutput()
		return strings.Contains(string(out), `"serving"`)
	})
	r := doctor(t, token, "-backend", "http://"+addr, "-token-file", file, "http://"+addr+"/mcp-sandbox")
	for _, want := range []string{"backend-loopback", "container-loose", "token-in-environment", "unreachable"} {
		expect(t, r, want)
	}
}

// The compose stack, from the host, from a network of its own through HTTPS,
// and from inside the sandbox's container: nothing fails anywhere.
func TestComposeStack(t *testing.T) {
	d := rig.NeedImages(t)
	c := rig.NewCheckout(t, 0)
	https := c.Stack(d)
	_, port, _ := strings.Cut(https, ":")
	for i, env := range c.Env { // the other network reaches Traefik by the host's address
		if strings.HasPrefix(env, "SALLYPORT_HTTPS=") {
			c.Env[i] = "SALLYPORT_HTTPS=0.0.0.0:" + port
		}
	}
	c.Make("up")
	token := filepath.Join(c.Dir, ".sallyport/edge/client-token")
	secret := c.Read(".sallyport/edge/client-token")

	t.Run("host", func(t *testing.T) {
		r := doctor(t, secret, "-token-file", token, "https://127.0.0.1:"+port+"/mcp-sandbox/sse")
		good(t, r, "container", "backend", "loopback", "plugin", "stream", "endpoint", "write_file", "read_file", "run_command", "network")
	})
	t.Run("another network", func(t *testing.T) {
		cmd := exec.Command("docker", "run", "--rm", "--volume", rig.Binary(t, "sallyport")+":/sallyport:ro", "--volume", token+":/token:ro",
			tools.DebianImage, "/sallyport", "doctor", "-json", "-insecure", "-token-file", "/token", "https://"+outside(t)+":"+port+"/mcp-sandbox/sse")
		good(t, output(t, cmd, secret), "plugin", "oauth", "stream", "endpoint", "sse", "streamable", "run_command")
	})
	t.Run("inside", func(t *testing.T) {
		cmd := c.Command("docker", "compose", "exec", "-T", "sandboxd", "sallyport", "doctor", "-json")
		good(t, output(t, cmd, ""), "backend", "stream", "endpoint", "sse", "streamable", "run_command")
	})
}

// sallyport plan reads the committed files as Compose renders them.
func TestPlan(t *testing.T) {
	d := rig.NeedImages(t)
	c := rig.NewCheckout(t, 0)
	c.Stack(d)
	c.Make("env")
	plan := func(args ...string) (string, int) {
		cmd := c.Command(rig.Binary(t, "sallyport"), append([]string{"plan"}, args...)...)
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	out, code := plan()
	if code != 0 || !strings.Contains(out, "sandbox could\n") || strings.Contains(out, "docker.sock") || strings.Contains(out, " have ") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if out, code := plan("-accept"); code != 0 {
		t.Fatalf("accept: %d %s", code, out)
	}
	if out, code := plan(); code != 0 || !strings.Contains(out, "The same as the accepted plan.") {
		t.Errorf("unchanged: %d\n%s", code, out)
	}
	c.Env = append(c.Env, "COMPOSE_PROFILES=hub,dockerproxy", "MCP_JAIL=group")
	out, code = plan()
	if code != 2 || !strings.Contains(out, "+ dockerproxy: control Docker, which is root on this host") || !strings.Contains(out, "+ sandbox: run commands without the kernel's restrictions") {
		t.Errorf("with the hub and without the jail: %d\n%s", code, out)
	}
	if strings.Contains(out, "+ hub: control Docker") {
		t.Errorf("the hub holds Docker's socket:\n%s", out)
	}
}

func output(t *testing.T, cmd *exec.Cmd, secret string) report {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	r := report{text: out.String() + errs.String(), code: cmd.ProcessState.ExitCode()}
	if jsonErr := json.Unmarshal(out.Bytes(), &r); jsonErr != nil {
		t.Fatalf("%v, %v:\n%s", err, jsonErr, r.text)
	}
	if secret != "" && strings.Contains(r.text, secret) {
		t.Error("doctor printed the token")
	}
	return r
}

// good expects an ok line for each boundary and no failure anywhere.
func good(t *testing.T, r report, boundaries ...string) {
	t.Helper()
	for _, l := range r.Lines {
		warned := slices.Contains([]string{"docker-old", "traefik-old", "traefik-unknown"}, l.Finding)
		if l.Finding != "" && !warned {
			t.Errorf("a false alarm: %+v", l)
		}
	}
	for _, want := range boundaries {
		if !slices.ContainsFunc(r.Lines, func(l line) bool { return l.Boundary == want && l.Verdict == "ok" }) {
			t.Errorf("no ok line for %s", want)
		}
	}
	if r.code != 0 || t.Failed() {
		t.Errorf("exit code %d:\n%s", r.code, r.text)
	}
}

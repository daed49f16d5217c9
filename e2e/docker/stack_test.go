// Package docker_test runs the stack as a user does: make up in a fresh
// checkout, on a real engine, with no file edited.
package docker_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

func TestMakeUp(t *testing.T) {
	for _, user := range []struct {
		name       string
		uid, owner uint32 // who runs make, who owns the workspace then
	}{
		{"root", 0, 64321},
		{"uid 1000", 1000, 1000},
	} {
		t.Run(user.name, func(t *testing.T) {
			d := rig.NeedImages(t)
			c := rig.NewCheckout(t, user.uid)
			https := c.Stack(d)
			said := c.Make("up")
			token := c.Read(".sallyport/edge/client-token")
			if strings.Contains(said, token) || !strings.Contains(said, "https://"+https+"/mcp-sandbox/sse") {
				t.Errorf("make up prints the token, or no URL:\n%s", said)
			}
			tryIt(t, c, said)
			clientChecks(t, "https://"+https, token)
			lockedDown(t, d, "https://"+https+"/mcp-sandbox", token, user.owner)
			ownership(t, c, user.owner)
			ownersView(t, c)

			before := c.Read(".env") + c.Read(".sallyport/sandbox-token")
			c.Make("up")
			if c.Read(".env")+c.Read(".sallyport/sandbox-token") != before || c.Read(".sallyport/edge/client-token") != token {
				t.Error("a second make up wrote over .env or a token")
			}
			otherWorkspace(t, c)
			if user.uid == 0 {
				dockerRunEquals(t, d, c)
			}
		})
	}
}

// tryIt runs the line that make up prints to be tried. No argument in it is the token.
func tryIt(t *testing.T, c *rig.Checkout, said string) {
	t.Helper()
	_, line, _ := strings.Cut(said, "Try it:")
	line, _, _ = strings.Cut(line, "\n")
	out, _ := c.Command("timeout", "5", "sh", "-c", line).CombinedOutput() // the stream does not end by itself
	if !strings.Contains(string(out), "event: endpoint") || strings.Contains(line, "$(") {
		t.Errorf("%s gives\n%s", line, out)
	}
}

// ownersView uses `sallyport` in the installation's folder, without a
// flag: the sandbox answers, and its records are whole.
func ownersView(t *testing.T, c *rig.Checkout) {
	t.Helper()
	for _, args := range [][]string{{"ps"}, {"approve"}, {"sessions"}, {"pause"}, {"resume"}, {"audit", "verify", ".sallyport/audit/sandboxd/audit.jsonl"}} {
		cmd := c.Command(rig.Binary(t, "sallyport"), args...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("sallyport %v: %v\n%s", args, err, out)
		}
	}
}

// otherWorkspace asks for another folder than .env says: refused, and the same
// folder by name is not.
func otherWorkspace(t *testing.T, c *rig.Checkout) {
	t.Helper()
	out, err := c.Command("make", "env", "WORKSPACE="+t.TempDir()).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "remove .env") {
		t.Errorf("another workspace than in .env: %v\n%s", err, out)
	}
	c.Make("env", "WORKSPACE="+filepath.Join(c.Dir, "workspace"))
}

// clientChecks is the list of the chain's tests, through HTTPS on the stack's
// Traefik.
func clientChecks(t *testing.T, origin, token string) {
	t.Helper()
	base := origin + "/mcp-sandbox"
	if got := rig.Status("http://127.0.0.1:18080/healthz"); got != 200 {
		t.Errorf("the backend's health: %d", got)
	}
	for path, want := range map[string]int{
		"/mcp-sandbox/sse": 401, "/mcp-sandbox/mcp": 401, "/mcp-sandbox/healthz": 401, "/healthz": 404,
		"/api/rawdata": 404, "/dashboard/": 404, "/ping": 404, "/.well-known/oauth-protected-resource": 404,
	} {
		if got := rig.Status(origin + path); got != want {
			t.Errorf("GET %s without a token: %d, want %d", path, got, want)
		}
	}
	req, _ := http.NewRequestWithContext(t.Context(), "GET", base+"/sse", nil)
	req.Header.Set("Accept", "text/event-stream")
	resp, err := rig.HTTPClient(token).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 200)
	n, err := io.ReadAtLeast(resp.Body, first, 40)
	resp.Body.Close()
	if !regexp.MustCompile(`^event: endpoint\r?\ndata: /mcp-sandbox/sse\?sessionid=`).Match(first[:n]) {
		t.Errorf("the first event: %q, %v", first[:n], err)
	}
	for _, how := range []rig.Transport{rig.SSE, rig.Streamable} {
		rig.UseThreeTools(t, rig.Connect(t, base, token, how))
	}
}

// lockedDown looks at the restrictions from both sides: what the engine says, and what
// a command inside can do.
func lockedDown(t *testing.T, d *rig.Docker, base, token string, owner uint32) {
	t.Helper()
	user := fmt.Sprintf("%d:%d", owner, owner)
	sandbox, traefik := inspect(t, d, "sandboxd"), inspect(t, d, "traefik")
	for name, c := range map[string]container{"sandboxd": sandbox, "traefik": traefik} {
		h := c.HostConfig
		if c.Config.User != user || !h.ReadonlyRootfs || !slices.Equal(h.CapDrop, []string{"ALL"}) || len(h.CapAdd) > 0 ||
			h.Privileged || !slices.Contains(h.SecurityOpt, "no-new-privileges:true") || h.Memory == 0 || h.PidsLimit == 0 {
			t.Errorf("%s is not locked down: user %s, %+v", name, c.Config.User, h)
		}
		for _, e := range c.Config.Env {
			if strings.Contains(e, token) || strings.HasPrefix(e, "MCP_AUTH_TOKEN=") {
				t.Errorf("%s has a token in its environment", name)
			}
		}
	}
	h := sandbox.HostConfig
	if h.PidsLimit != int64(176+32*runtime.NumCPU()) || len(h.Tmpfs) != 3 || h.Memory != 2<<30 || h.MemorySwap != 2<<30 || h.NanoCpus == 0 || h.NanoCpus > 2e9 || h.RestartPolicy.Name != "unless-stopped" {
		t.Errorf("sandboxd's limits: %+v", h)
	}
	for port, bound := range h.PortBindings {
		if port != "8000/tcp" || len(bound) != 1 || bound[0].HostIP != "127.0.0.1" {
			t.Errorf("published: %s at %+v", port, bound)
		}
	}
	if got, want := targets(sandbox), []string{"/audit rw", "/etc/passwd ro", "/run/owner rw", "/run/secrets/owner-key ro", "/run/secrets/sandbox-token ro", "/workspace rw"}; !slices.Equal(got, want) {
		t.Errorf("sandboxd's mounts: %q, want %q", got, want)
	}
	plugin := "/plugins-local/src/github.com/sallyport-dev/sallyport/"
	if got, want := targets(traefik), []string{"/etc/traefik/traefik-dynamic.yml ro", plugin + ".traefik.yml ro", plugin + "go.mod ro", plugin + "plugin ro",
		"/run/login-revoked ro", "/run/secrets/edge ro", "/run/secrets/hub-token ro", "/run/secrets/sandbox-token ro"}; !slices.Equal(got, want) {
		t.Errorf("Traefik's mounts: %q, want %q", got, want)
	}
	network := d.Run("network", "inspect", "-f", "{{json .Options}}", d.Name+"_sandbox")
	for _, option := range []string{`"com.docker.network.bridge.enable_icc":"false"`, `"com.docker.network.bridge.enable_ip_masquerade":"false"`} {
		if !strings.Contains(network, option) {
			t.Errorf("the network lacks %s: %s", option, network)
		}
	}
	insideLockedDown(t, base, token, owner)
}

// insideLockedDown tries what a command must not be able to do. Each line's
// counterpart that works stands beside it.
func insideLockedDown(t *testing.T, base, token string, owner uint32) {
	t.Helper()
	session := rig.Connect(t, base, token, rig.Streamable)
	for command, want := range map[string]string{
		"id -u": fmt.Sprint(owner),
		"grep CapEff /proc/self/status | cut -f2":                                                                       "0000000000000000",
		"grep NoNewPrivs /proc/self/status | cut -f2":                                                                   "1",
		"touch /workspace/x && echo yes || echo no":                                                                     "yes",
		"touch /usr/x 2>/dev/null && echo yes || echo no":                                                               "no",
		"cat /run/secrets/sandbox-token >/dev/null 2>&1 && echo yes || echo no":                                         "no",
		"printf '#!/bin/sh\\necho ran\\n' >/tmp/x && chmod +x /tmp/x && /tmp/x":                                         "ran",
		"ls /var/run/docker.sock /root/.ssh >/dev/null 2>&1 && echo yes || echo no":                                     "no",
		"bash -c 'echo >/dev/tcp/127.0.0.1/8000' 2>/dev/null && echo yes || echo no":                                    "no",
		"env | grep -c TOKEN || true":                                                                                   "0",
		"git init -q repo && cd repo && git status -s && echo yes":                                                      "yes",
		"mkdir -p m && cd m && printf 'package main\\nfunc main(){println(1)}' >m.go && go build -o m m.go && ./m 2>&1": "1",
	} {
		got := rig.Call(t, session, "run_command", rig.Args{"command": command, "timeout_seconds": 120})
		if out, _ := got["stdout"].(string); strings.TrimSpace(out) != want {
			t.Errorf("%s: %q, want %q (stderr %q)", command, out, want, got["stderr"])
		}
	}
}

// ownership checks modes and owners on the host.
func ownership(t *testing.T, c *rig.Checkout, owner uint32) {
	t.Helper()
	for name, mode := range map[string]os.FileMode{
		".env": 0o600, ".sallyport": 0o700, ".sallyport/edge": 0o700, ".sallyport/edge/client-token": 0o600,
		".sallyport/sandbox-token": 0o600, ".sallyport/hub-token": 0o600, "workspace/three-tools.txt": 0,
	} {
		info, err := os.Stat(filepath.Join(c.Dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		st := info.Sys().(*syscall.Stat_t)
		if st.Uid != owner || st.Gid != owner || mode != 0 && info.Mode().Perm() != mode {
			t.Errorf("%s: %v of %d:%d", name, info.Mode(), st.Uid, st.Gid)
		}
	}
}

// container is what these tests read of docker inspect.
type container struct {
	Config struct {
		User string
		Env  []string
	}
	HostConfig hostConfig
	Mounts     []struct {
		Destination string
		RW          bool
	}
}

type hostConfig struct {
	ReadonlyRootfs, Privileged              bool
	CapAdd, CapDrop, SecurityOpt            []string
	Memory, MemorySwap, NanoCpus, PidsLimit int64
	ShmSize                                 int64
	NetworkMode                             string
	RestartPolicy                           struct{ Name string }
	PortBindings                            map[string][]struct {
		HostIP   string `json:"HostIp"`
		HostPort string
	}
	Tmpfs   map[string]string
	Ulimits []struct {
		Name       string
		Soft, Hard int64
	}
	LogConfig struct {
		Type   string
		Config map[string]string
	}
}

// inspect reads a service's container of the stack.
func inspect(t *testing.T, d *rig.Docker, service string) container {
	t.Helper()
	id := d.Run("ps", "-aq", "--no-trunc", "--filter", "label=com.docker.compose.project="+d.Name, "--filter", "label=com.docker.compose.service="+service)
	return inspectID(t, d, id)
}

func inspectID(t *testing.T, d *rig.Docker, id string) container {
	t.Helper()
	var all []container
	if err := json.Unmarshal([]byte(d.Run("inspect", id)), &all); err != nil || len(all) != 1 {
		t.Fatalf("docker inspect: %v, %d containers", err, len(all))
	}
	return all[0]
}

func targets(c container) []string {
	var all []string
	for _, m := range c.Mounts {
		mode := " ro"
		if m.RW {
			mode = " rw"
		}
		all = append(all, m.Destination+mode)
	}
	slices.Sort(all)
	return all
}

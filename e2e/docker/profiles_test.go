package docker_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/e2e/tools"
)

// words is an MCP server in a few lines of shell, with one tool.
const words = `while read -r line; do
	id=$(printf %s "$line" | sed -n 's/.*"id": *\([0-9]*\).*/\1/p')
	case "$line" in
	*'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"words","version":"1"}}' ;;
	*'"tools/list"'*) result='{"tools":[{"name":"where","inputSchema":{"type":"object"}}]}' ;;
	*'"tools/call"'*) result='{"content":[{"type":"text","text":"'$(pwd)'"}]}' ;;
	*'"id"'*)
		echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"no such method"}}'
		continue
		;;
	*) continue ;;
	esac
	echo '{"jsonrpc":"2.0","id":'$id',"result":'$result'}'
done`

// With the profiles hub and dockerproxy the stack serves other people's servers
// at /mcp-hub, through the same Traefik, and each process holds only what is its own.
func TestProfiles(t *testing.T) {
	d := rig.NeedImages(t)
	c := rig.NewCheckout(t, 0)
	https := c.Stack(d)
	c.Env = append(c.Env, "COMPOSE_PROFILES=hub,dockerproxy")
	c.Make("env")
	servers, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"words": map[string]any{"command": "/bin/sh", "args": []string{"-c", words}},
		"boxed": map[string]any{"type": "docker", "image": tools.DebianImage, "command": []string{"/bin/sh", "-c", words}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.Dir, "config", "mcp.json"), servers, 0o600); err != nil {
		t.Fatal(err)
	}
	c.Make("up")
	token := c.Read(".sallyport/edge/client-token")
	base := "https://" + https + "/mcp-hub"

	if got := rig.Status(base + "/status"); got != 401 {
		t.Errorf("the hub's status without a token: %d", got)
	}
	resp, err := rig.HTTPClient(token).Get(base + "/status")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	status, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 200 || !json.Valid(status) || !strings.Contains(string(status), "words") {
		t.Errorf("the hub's status: %d %s", resp.StatusCode, status)
	}
	session := rig.Connect(t, base+"/hub", token, rig.Streamable)
	list, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "list_servers"})
	if err != nil || list.IsError || !strings.Contains(rig.Text(list), "words") {
		t.Errorf("list_servers: %v %+v", err, list)
	}

	for server, home := range map[string]string{"words": "/state/stdio/words", "boxed": "/"} {
		for _, how := range []rig.Transport{rig.SSE, rig.Streamable} {
			session := rig.Connect(t, base+"/servers/"+server, token, how)
			if got := rig.Text(rig.TryCall(t, session, "where", rig.Args{})); got != home {
				t.Errorf("%s over %s works in %q, not %q", server, how, got, home)
			}
		}
	}

	hub, proxy := inspect(t, d, "hub"), inspect(t, d, "dockerproxy")
	for name, c := range map[string]container{"hub": hub, "dockerproxy": proxy} {
		if h := c.HostConfig; strings.HasPrefix(c.Config.User, "0") || !h.ReadonlyRootfs || len(h.CapDrop) != 1 || h.Privileged {
			t.Errorf("%s is not locked down: user %s, %+v", name, c.Config.User, h)
		}
	}
	mounts := strings.Join(targets(hub), "\n")
	for _, held := range []string{"docker.sock", "/workspace", "sandbox-token", "/run/secrets/edge"} {
		if strings.Contains(mounts, held) {
			t.Errorf("the hub holds %s:\n%s", held, mounts)
		}
	}
	if len(proxy.HostConfig.PortBindings) > 0 || proxy.HostConfig.NetworkMode != "none" {
		t.Errorf("dockerproxy has a network: %+v", proxy.HostConfig)
	}
	for _, other := range []string{"sandboxd", "traefik"} {
		if mounts := strings.Join(targets(inspect(t, d, other)), "\n"); strings.Contains(mounts, "docker.sock") || strings.Contains(mounts, "/run/proxy") {
			t.Errorf("%s holds a socket that is not its own:\n%s", other, mounts)
		}
	}
}

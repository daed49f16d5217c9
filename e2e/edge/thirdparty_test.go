package edge

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// Third-party servers that know nothing of a prefix work at /foo/bar over SSE:
// their endpoint events are mapped.
func TestThirdPartyServersBelowAPrefix(t *testing.T) {
	bin := filepath.Join(rig.NPM(t, "servers"), "node_modules", ".bin")
	memory := filepath.Join(bin, "mcp-server-memory")
	servers := map[string]func(port string) *exec.Cmd{
		"supergateway": func(port string) *exec.Cmd {
			return exec.Command("node", filepath.Join(bin, "supergateway"), "--stdio", "node "+memory, "--outputTransport", "sse", "--port", port)
		},
		"mcp-proxy": func(port string) *exec.Cmd {
			return exec.Command("node", filepath.Join(bin, "mcp-proxy"), "--host", "127.0.0.1", "--port", port, "--", "node", memory)
		},
		"server-everything": func(string) *exec.Cmd {
			return exec.Command("node", filepath.Join(bin, "mcp-server-everything"), "sse")
		},
	}
	for name, command := range servers {
		t.Run(name, func(t *testing.T) {
			addr := rig.FreeAddr(t)
			_, port, err := net.SplitHostPort(addr)
			if err != nil {
				t.Fatal(err)
			}
			cmd := command(port)
			cmd.Env = append(os.Environ(), "PORT="+port, "MEMORY_FILE_PATH="+filepath.Join(t.TempDir(), "memory.json"))
			server := rig.Start(t, cmd)
			rig.Until(t, name+" to listen", func() bool {
				conn, err := net.Dial("tcp", addr)
				if err == nil {
					conn.Close()
				}
				return err == nil
			}, server)
			bothProxies(t, func(t *testing.T, fast bool) { useServer(t, addr, fast) })
		})
	}
}

func useServer(t *testing.T, addr string, fast bool) {
	token, file := rig.NewToken(t)
	tr := rig.StartTraefik(t, rig.TraefikOptions{FastProxy: fast, Dynamic: fmt.Sprintf(`http:
  routers:
    r: {rule: "PathPrefix(%s)", entryPoints: [web], service: s, middlewares: [edge]}
  middlewares:
    edge: {plugin: {sallyport: {pathPrefix: /foo/bar, backendPath: /, backendAuth: none, tokens: [{name: all, valueFile: %s, tools: ["*"]}]}}}
  services: {s: {loadBalancer: {servers: [{url: "http://%s"}]}}}
`, "`/foo/bar`", file, addr)})
	session := rig.Connect(t, tr.Web+"/foo/bar", token, rig.SSE)
	list, err := session.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) == 0 {
		t.Fatalf("%v, %v", list, err)
	}
	name, args := "read_graph", rig.Args{}
	if list.Tools[0].Name == "echo" {
		name, args = "echo", rig.Args{"message": "hello"}
	}
	if result := rig.TryCall(t, session, name, args); result.IsError || rig.Text(result) == "" {
		t.Errorf("%s: %s", name, rig.Text(result))
	}
}

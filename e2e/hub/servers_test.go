package hub

import (
	"crypto/rand"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/dockerproxy/container"
	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/e2e/tools"
)

// program of a real server below a folder with node_modules.
func program(dir, name string) string {
	return dir + "/node_modules/@modelcontextprotocol/server-" + name + "/dist/index.js"
}

// servers starts the three real servers in each of the four ways, behind the
// hub. It returns the stand and what else runs for it.
type servers struct {
	*stand
	docker   *rig.Docker
	instance string
	proxy    *rig.Process
}

func startServers(t *testing.T) *servers {
	t.Helper()
	modules := rig.NPM(t, "servers")
	node := rig.NeedCommand(t, "node")
	s := &servers{docker: rig.NeedImages(t), instance: strings.ToLower(rand.Text()[:12])}
	s.stand = prepare(t)
	socket := filepath.Join(s.own(filepath.Join(s.dir, "proxy")), "proxy.sock")
	s.env = append(s.env, "MCP_PROXY_SOCKET="+socket)
	s.image(t, modules, node)
	shim := filepath.Join(rig.Root(t), "deploy/shim.mjs")
	sockets := s.own(filepath.Join(s.dir, "sockets"))
	if err := os.Chmod(sockets, 0o700); err != nil { // as .sallyport is
		t.Fatal(err)
	}
	entries := map[string]any{}
	for _, name := range []string{"everything", "filesystem", "memory"} {
		dir := s.private("stdio-"+name, "cp", "-r", modules+"/node_modules")
		entries["stdio-"+name] = entry{"command": node, "args": arguments(name, dir, dir), "env": memory(dir)}

		command := append([]string{"node"}, arguments(name, "", "/tmp")...)
		entries["docker-"+name] = entry{"type": "docker", "image": s.docker.Name, "command": command, "env": memory("/tmp")}

		// As docs/mcp-json.md has it: a folder per server, and a user that is not the hub's.
		run(t, "mkdir", "-m", "1777", sockets+"/"+name)
		s.docker.Container(append([]string{"--user", "65532:65532", "--network", "none", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL",
			"--security-opt", "no-new-privileges:true", "-v", sockets + "/" + name + ":/run/mcp", "-v", shim + ":/shim.mjs:ro",
			"-e", "MEMORY_FILE_PATH=/tmp/memory.jsonl", s.docker.Name, "node", "/shim.mjs", "/run/mcp/mcp.sock"}, command...)...)
		entries["unix-"+name] = entry{"type": "unix", "socket": sockets + "/" + name + "/mcp.sock"}

		work := rig.PublicDir(t)
		_, port, _ := strings.Cut(rig.FreeAddr(t), ":")
		cmd := exec.Command(node, append([]string{shim, port, node}, arguments(name, modules, work)...)...)
		cmd.Env = append(os.Environ(), "MEMORY_FILE_PATH="+work+"/memory.jsonl")
		rig.Start(t, cmd)
		entries["tcp-"+name] = entry{"type": "tcp", "host": "127.0.0.1", "port": json.Number(port)}
	}
	s.configure(entries)
	s.startProxy(socket)
	s.start()
	return s
}

// arguments of Node for a server: its program below modules, and where it may
// work.
func arguments(name, modules, work string) []string {
	args := []string{program(modules, name)}
	if name == "filesystem" {
		args = append(args, work)
	}
	return args
}

func memory(dir string) entry { return entry{"MEMORY_FILE_PATH": dir + "/memory.jsonl"} }

// image has this machine's Node and the packages.
func (s *servers) image(t *testing.T, modules, node string) {
	t.Helper()
	context := t.TempDir()
	if out, err := exec.Command("cp", "-r", modules+"/node_modules", node, context).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file := "FROM " + tools.DebianImage + "\nCOPY node /usr/local/bin/node\nCOPY node_modules /node_modules\n"
	if err := os.WriteFile(filepath.Join(context, "Dockerfile"), []byte(file), 0o644); err != nil {
		t.Fatal(err)
	}
	s.docker.Run("build", "-q", "-t", s.docker.Name, context)
	t.Cleanup(func() { s.docker.Try("rmi", "-f", s.docker.Name) })
}

func (s *servers) startProxy(socket string) {
	s.t.Helper()
	cmd := as(exec.Command(rig.Binary(s.t, "sallyport-dockerproxy")))
	cmd.Env = []string{"CONFIG_PATH=" + filepath.Join(s.dir, "mcp.json"), "LISTEN_SOCKET=" + socket, "INSTANCE=" + s.instance, "FORBIDDEN_SOURCES=none",
		"SANDBOX_SECRETS_DIR=" + s.own(filepath.Join(s.dir, "secrets"))}
	s.proxy = rig.Start(s.t, cmd)
	rig.Until(s.t, "the proxy listens", func() bool { return strings.Contains(s.proxy.Log.String(), `"listening"`) }, s.proxy)
}

// containers that the proxy holds for this hub.
func (s *servers) containers() []string {
	out, _ := s.docker.Try("ps", "-aq", "--filter", "label="+container.LabelOwner+"="+s.instance)
	return strings.Fields(out)
}

// use does with each server what it is for.
func use(t *testing.T, session *mcp.ClientSession, name string) {
	t.Helper()
	list, err := session.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) < 9 {
		t.Fatalf("tools/list: %v, %v", list, err)
	}
	call := func(tool string, args rig.Args) string {
		t.Helper()
		return rig.Text(rig.TryCall(t, session, tool, args))
	}
	switch name {
	case "everything":
		if got := call("echo", rig.Args{"message": "hello"}); got != "Echo: hello" {
			t.Errorf("echo: %q", got)
		}
	case "memory":
		call("create_entities", rig.Args{"entities": []rig.Args{{"name": "gate", "entityType": "thing", "observations": []string{"is guarded"}}}})
		if got := call("read_graph", rig.Args{}); !strings.Contains(got, "is guarded") {
			t.Errorf("read_graph: %q", got)
		}
	case "filesystem":
		dir := strings.TrimSpace(call("list_allowed_directories", rig.Args{}))
		dir = dir[strings.LastIndex(dir, "\n")+1:]
		call("write_file", rig.Args{"path": dir + "/x.txt", "content": "written"})
		if got := call("read_text_file", rig.Args{"path": dir + "/x.txt"}); !strings.Contains(got, "written") {
			t.Errorf("read_text_file in %s: %q", dir, got)
		}
	}
}

// The real servers in each way that the hub knows, used by real clients through
// Traefik and the plugin; then what happens when parts of it are killed.
func TestRealServers(t *testing.T) {
	s := startServers(t)
	token, file := rig.NewToken(t)
	edge := rig.Files{EdgeDir: filepath.Dir(file), HubToken: s.tokenFile, HubAddr: s.addr}
	if err := os.Rename(file, filepath.Join(edge.EdgeDir, "client-token")); err != nil {
		t.Fatal(err)
	}
	// More than the default of 120 requests a minute: an idle machine is quick.
	yaml := strings.Replace(edge.Dynamic(t), `tools: ["*"]`, `tools: ["*"]
              requestsPerMinute: 60000
              maxConcurrent: 64`, 1)
	base := rig.StartTraefik(t, rig.TraefikOptions{Dynamic: yaml}).WebSecure + "/mcp-hub"
	for _, kind := range []string{"stdio", "unix", "tcp", "docker"} {
		for _, name := range []string{"everything", "filesystem", "memory"} {
			for _, how := range []rig.Transport{rig.SSE, rig.Streamable} {
				t.Run(kind+"/"+name+"/"+string(how), func(t *testing.T) {
					use(t, rig.Connect(t, base+"/servers/"+kind+"-"+name, token, how), name)
				})
			}
		}
	}
	t.Run("TypeScript", func(t *testing.T) { typeScript(t, base+"/servers/stdio-everything", token) })
	t.Run("aggregate", func(t *testing.T) {
		session := rig.Connect(t, base+"/hub", token, rig.Streamable)
		got := rig.Text(rig.TryCall(t, session, "call_tool", rig.Args{"server": "docker-everything", "tool": "echo", "arguments": rig.Args{"message": "through six tools"}}))
		if got != "Echo: through six tools" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("faults", func(t *testing.T) { s.faults(t) })
}

func typeScript(t *testing.T, base, token string) {
	modules := rig.NPM(t, "clients")
	dir := t.TempDir()
	run(t, "cp", "testdata/echo.mjs", dir)
	run(t, "ln", "-s", modules+"/node_modules", dir+"/node_modules")
	for _, v := range [][2]string{{"sdk-1-17", "sse"}, {"sdk-1-17", "mcp"}, {"sdk-1-32", "mcp"}, {"@modelcontextprotocol/client", "mcp"}} {
		cmd := exec.CommandContext(t.Context(), "node", dir+"/echo.mjs", v[0], v[1], base)
		cmd.Env = append(os.Environ(), "TOKEN="+token, "NODE_TLS_REJECT_UNAUTHORIZED=0", "NODE_NO_WARNINGS=1")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), `"Echo: from `+v[0]+`"`) {
			t.Errorf("%v: %v\n%s", v, err, out)
		}
	}
}

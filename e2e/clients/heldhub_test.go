package clients_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// The same calls of a server behind the hub: of the server itself, over both
// transports, and by the aggregate's call_tool. Only what was approved comes to
// the server.
func TestHeldCallsOfTheHub(t *testing.T) {
	t.Parallel()
	modules := rig.NPM(t, "clients")
	script := beside(t, modules, "held.mjs")
	h := startHeldHub(t)
	var all sync.WaitGroup
	for _, v := range []struct{ at, how string }{{"notes", "sse"}, {"notes", "mcp"}, {"hub", "mcp"}} {
		pkg := map[string]string{"notes": "sdk-1-32", "hub": "@modelcontextprotocol/client"}[v.at]
		base := h.base + map[string]string{"notes": "/servers/notes", "hub": "/hub"}[v.at]
		all.Go(func() { typeScript(t, script, h.token, pkg, v.how, base, "-"+v.at, cases) })
		session := rig.Connect(t, base, h.token, rig.Transport(v.how))
		all.Go(func() {
			for _, name := range []string{"deny", "approve"} { // one after the other: an owner has at most 16 open questions of one principal
				args := rig.Args{"command": "echo " + name + "-go-" + v.how + "-" + v.at}
				tool := "save"
				if v.at == "hub" {
					tool, args = "call_tool", rig.Args{"server": "notes", "tool": "save", "arguments": args}
				}
				r := rig.TryCall(t, session, tool, args)
				visit{Text: rig.Text(r), IsError: r.IsError}.check(t, name, name+"-go-"+v.how+"-"+v.at)
			}
		})
	}
	all.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	heard := strings.Join(h.heard, "\n")
	// Three of the TypeScript client's five run, and one of the Go client's two.
	if strings.Contains(heard, "echo deny") || len(h.heard) != 3*(3+1) {
		t.Errorf("the server was called with:\n%s", heard)
	}
}

// heldHub is a hub behind Traefik whose one tool asks, with an owner.
type heldHub struct {
	base, token string
	mu          sync.Mutex
	heard       []string // the commands of the calls that came to the server
}

func startHeldHub(t *testing.T) *heldHub {
	t.Helper()
	rig.NeedRoot(t)
	h := &heldHub{}
	key, socket, env := owners(t)
	state := filepath.Join(rig.PublicDir(t), "state")
	config := filepath.Join(rig.PublicDir(t), "mcp.json")
	entries := fmt.Sprintf(`{"mcpServers": {"notes": {"type": "tcp", "host": "127.0.0.1", "port": %s}}}`, rig.StartLines(t, h.answer))
	if err := os.WriteFile(config, []byte(entries), 0o644); err != nil {
		t.Fatal(err)
	}
	const uid = 64321
	for _, dir := range []string{state, filepath.Dir(socket), filepath.Join(filepath.Dir(filepath.Dir(socket)), "audit")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	addr := rig.FreeAddr(t)
	_, hubToken := rig.NewToken(t)
	cmd := exec.Command(rig.Binary(t, "sallyport-hub"))
	cmd.Env = append(env, "PATH="+os.Getenv("PATH"), "MCP_ADDR="+addr, "MCP_AUTH_TOKEN_FILE="+hubToken, "MCP_SERVERS_FILE="+config,
		"MCP_STATE_DIR="+state, "MCP_REQUIRE_EDGE=true")
	p := rig.Start(t, cmd)
	rig.Until(t, "the hub's health", func() bool { return rig.Status("http://"+addr+"/healthz") == 200 }, p)
	token, file := rig.NewToken(t)
	files := rig.Files{EdgeDir: filepath.Dir(file), HubToken: hubToken, HubAddr: addr}
	if err := os.Rename(file, filepath.Join(files.EdgeDir, "client-token")); err != nil {
		t.Fatal(err)
	}
	yaml := strings.Replace(files.Dynamic(t), `tools: ["*"]`, `tools: ["ask:notes/save"]`, 1)
	h.token, h.base = token, rig.StartTraefik(t, rig.TraefikOptions{Dynamic: yaml}).WebSecure+"/mcp-hub"
	decides(t, socket, key)
	return h
}

// answer is the server's: its tool says what command it was called with.
func (h *heldHub) answer(method string, params json.RawMessage) string {
	switch method {
	case "tools/list":
		return `{"tools":[{"name":"save","description":"Saves a note.","inputSchema":{"type":"object"}}]}`
	case "tools/call":
		var call struct{ Arguments struct{ Command string } }
		_ = json.Unmarshal(params, &call)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.heard = append(h.heard, call.Arguments.Command)
		text, _ := json.Marshal(call.Arguments.Command)
		return fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, text)
	}
	return rig.Initialized
}

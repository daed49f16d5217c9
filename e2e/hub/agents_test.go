package hub

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// programs is a folder as docs/mcp-json.md has it installed: npm's
// node_modules, with Node in its .bin.
func programs(t *testing.T, s *stand) string {
	t.Helper()
	modules, node := rig.NPM(t, "servers"), rig.NeedCommand(t, "node")
	real, err := filepath.EvalSymlinks(node)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(s.dir, "programs")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "cp", "-r", modules+"/node_modules", dir+"/")
	run(t, "cp", real, dir+"/node_modules/.bin/node")
	s.env = append(s.env, "MCP_PROGRAMS="+dir)
	return dir
}

// npmEntries are three npm servers as the page writes them.
func npmEntries() map[string]any {
	return map[string]any{
		"everything": entry{"command": "mcp-server-everything"},
		"memory":     entry{"command": "mcp-server-memory", "env": entry{"MEMORY_FILE_PATH": "memory.jsonl"}},
		"filesystem": entry{"command": "mcp-server-filesystem", "args": []string{"."}},
	}
}

// Ten agents, each with three npm servers, call them five times through Traefik
// with the shipped settings of edge and hub: none is refused, none gets
// another's answer. The servers run by the way that the page describes.
func TestTenAgentsOnThreeServers(t *testing.T) {
	s := prepare(t, "MCP_REQUIRE_EDGE=true", "MCP_ALLOWED_HOSTS=*")
	programs(t, s)
	s.configure(npmEntries())
	s.start()
	token, file := rig.NewToken(t)
	dir := filepath.Dir(file)
	if err := os.Rename(file, filepath.Join(dir, "client-token")); err != nil {
		t.Fatal(err)
	}
	files := rig.Files{EdgeDir: dir, HubToken: s.tokenFile, HubAddr: s.addr}
	traefik := rig.StartTraefik(t, rig.TraefikOptions{Dynamic: files.Dynamic(t)})
	base := traefik.WebSecure + "/mcp-hub/servers/"
	agents(t, 10, []string{"everything", "memory", "filesystem"}, base, token)
	if log := s.Log.String(); strings.Contains(log, `"msg":"down"`) {
		t.Errorf("a server went down:\n%s", log)
	}
}

// Fourteen agents on one Node server: nobody is refused and nothing is parked,
// with the hub's default settings and where there is room for a few of them.
func TestFourteenAgentsOnOneServer(t *testing.T) {
	for name, env := range map[string][]string{"default": nil, "narrow": {"MCP_MAX_PROCESSES=200"}} {
		t.Run(name, func(t *testing.T) {
			s := prepare(t, env...)
			programs(t, s)
			s.configure(map[string]any{"everything": entry{"command": "mcp-server-everything"}})
			s.start()
			agents(t, 14, []string{"everything"}, s.url+"/servers/", s.token)
			if log := s.Log.String(); strings.Contains(log, "parked") || strings.Contains(log, "SIGABRT") {
				t.Errorf("a server was lost:\n%s", log)
			}
		})
	}
}

// agents connect to each server and call it five times, all at once.
func agents(t *testing.T, n int, servers []string, base, token string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for agent := range n {
		for _, server := range servers {
			all.Go(func() {
				session, err := rig.TryConnect(ctx, base+server, token, rig.Streamable)
				if err != nil {
					t.Errorf("agent %d, %s: %v", agent, server, err)
					return
				}
				defer session.Close()
				for round := range 5 {
					want := fmt.Sprintf("agent %d round %d", agent, round)
					if got, err := ask(ctx, session, server, want); err != nil || !strings.Contains(got, want) {
						t.Errorf("%s on %s: %q %v", want, server, got, err)
					}
				}
			})
		}
	}
	all.Wait()
}

// ask makes a call whose answer holds the word.
func ask(ctx context.Context, session *mcp.ClientSession, server, word string) (string, error) {
	call := map[string]*mcp.CallToolParams{
		"everything": {Name: "echo", Arguments: rig.Args{"message": word}},
		"memory":     {Name: "search_nodes", Arguments: rig.Args{"query": word}},
		"filesystem": {Name: "get_file_info", Arguments: rig.Args{"path": word}},
	}[server]
	result, err := session.CallTool(ctx, call)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, c := range result.Content {
		if c, ok := c.(*mcp.TextContent); ok {
			text.WriteString(c.Text)
		}
	}
	if server == "memory" && !result.IsError { // it does not repeat the word
		return word, nil
	}
	return text.String(), nil
}

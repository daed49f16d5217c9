package imports_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/mcpjson"
	"github.com/sallyport-dev/sallyport/owner/imports"
)

// files of several programs as their pages and users write them: what is taken, and
// what is said.
var files = map[string]struct {
	text string
	want map[string]string // the entry as compact JSON
	says []string
}{
	"Claude Desktop": {`{"globalShortcut": "Ctrl+Space", "mcpServers": {"memory": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory@2026.1.1"], "env": {"MEMORY_FILE_PATH": "m.json"}}}}`,
		map[string]string{"memory": `{"command":"mcp-server-memory","env":{"MEMORY_FILE_PATH":"m.json"}}`}, []string{"npm install --prefix programs node@22 @modelcontextprotocol/server-memory@2026.1.1"}},
	"Claude Code": {`{"projects": {"/home/me/x": {"mcpServers": {"sentry": {"type": "http", "url": "https://mcp.sentry.dev/mcp"}}}}, "mcpServers": {"a": {"type": "stdio", "command": "notes", "args": ["${NOTES:-x}"], "timeout": 60000}}}`,
		map[string]string{"sentry": `{"type":"http","url":"https://mcp.sentry.dev/mcp"}`, "a": `{"args":["${NOTES:-x}"],"command":"notes","timeout":60000}`}, nil},
	"Cursor": {"// mine\n" + `{"mcpServers": {"My Server": {"url": "https://x.example/mcp", "headers": {"Authorization": "Bearer ${env:TOKEN}"}}, "old": {"url": "https://x.example/sse"}, "file": {"command": "notes", "envFile": ".env"}}}`,
		map[string]string{"My-Server": `{"headers":{"Authorization":"Bearer ${TOKEN}"},"type":"http","url":"https://x.example/mcp"}`, "old": `{"type":"sse","url":"https://x.example/sse"}`, "file": `{"command":"notes"}`},
		[]string{`"My Server"`, "config/hub.env"}},
	"VS Code": {`{"inputs": [{"id": "api-key"}], "servers": {"gh": {"type": "http", "url": "https://api.example/mcp/", "headers": {"X-Key": "${input:api-key}"}}, /* a box */ "box": {"command": "docker", "args": ["run", "-i", "--rm", "-e", "TOKEN", "img:1", "stdio",],},},}`,
		map[string]string{"gh": `{"headers":{"X-Key":"${API_KEY}"},"type":"http","url":"https://api.example/mcp/"}`, "box": `{"command":["stdio"],"env":{"TOKEN":"${TOKEN}"},"image":"img:1","type":"docker"}`},
		[]string{"API_KEY=… into config/hub.env", "TOKEN=… into config/hub.env"}},
	"VS Code settings": {`{"editor.fontSize": 12, "mcp": {"servers": {"s": {"type": "streamable_http", "url": "http://127.0.0.1:1/mcp"}}}}`,
		map[string]string{"s": `{"type":"http","url":"http://127.0.0.1:1/mcp"}`}, nil},
	"VS Code workspace": {`{"folders": [], "settings": {"mcp": {"servers": {"w": {"command": "node"}}}}, "tasks": {"tasks": [{"label": "t", "command": "make"}]}}`,
		map[string]string{"w": `{"command":"node"}`}, nil},
	"Zed": {`{"theme": "x", "context_servers": {"a": {"command": "x", "args": ["1"]}, "old": {"command": {"path": "y", "args": ["2"], "env": {"N": "1"}}}}}`,
		map[string]string{"a": `{"args":["1"],"command":"x"}`, "old": `{"args":["2"],"command":"y","env":{"N":"1"}}`}, nil},
	"OpenCode": {`{"mcp": {"a": {"type": "local", "command": ["x", "--port", "1"], "environment": {"N": "1"}, "enabled": true}, "off": {"type": "local", "command": ["x"], "enabled": false},
		"r": {"type": "remote", "url": "https://x.example/mcp", "headers": {"Authorization": "Bearer {env:MY_KEY}"}}}, "formatter": {"f": {"command": ["gofmt"]}}}`,
		map[string]string{"a": `{"args":["--port","1"],"command":"x","env":{"N":"1"}}`, "r": `{"headers":{"Authorization":"Bearer ${MY_KEY}"},"type":"http","url":"https://x.example/mcp"}`},
		[]string{"off: is disabled"}},
	"Amp": {`{"amp.mcpServers": {"a": {"command": "x"}}}`, map[string]string{"a": `{"command":"x"}`}, nil},
	"Continue": {`{"mcpServers": [{"name": "a", "command": "x"}], "experimental": {"modelContextProtocolServers": [{"transport": {"type": "stdio", "command": "y"}}]}}`,
		map[string]string{"a": `{"command":"x"}`, "modelContextProtocolServers-1": `{"command":"y"}`}, nil},
	"a plugin of Claude Code": {`{"a": {"command": "x"}, "b": {"type": "sse", "url": "https://x.example/e"}}`,
		map[string]string{"a": `{"command":"x"}`, "b": `{"type":"sse","url":"https://x.example/e"}`}, nil},
	"Copilot": {`{"mcpServers": {"a": {"type": "local", "transport": "stdio", "command": "x", "tools": ["*"]}}, "hooks": {"h": {"command": "rm"}}}`,
		map[string]string{"a": `{"command":"x"}`}, []string{`"a/TOOL"`}},
	"numbers": {`{"mcpServers": {"a": {"command": "x", "args": ["--port", 3000], "env": {"PORT": 3000, "DEBUG": true, "BIG": 12345678901, "ODD": {}}}, "b": {"url": "https://x.example/mcp", "headers": {"X-N": 5}}}}`,
		map[string]string{"a": `{"args":["--port","3000"],"command":"x","env":{"BIG":"12345678901","DEBUG":"true","ODD":"","PORT":"3000"}}`, "b": `{"headers":{"X-N":"5"},"type":"http","url":"https://x.example/mcp"}`},
		[]string{"env.ODD is no text"}},
	"one name for several": {`{"mcpServers": {"git": {"command": "x"}, "g it": {"command": "y"}, "g-it": {"command": "z"}}, "projects": {"/a": {"mcpServers": {"git": {"command": "x"}}, "enabledMcpjsonServers": ["q"]}, "/b": {"mcpServers": {"git": {"command": "b"}}}}}`,
		map[string]string{"git": `{"command":"x"}`, "g-it": `{"command":"y"}`, "g-it-2": `{"command":"z"}`, "git-2": `{"command":"b"}`}, []string{`git-2: is the name here, for "git"`}},
	"Cherry Studio": {`{"mcpServers": {"off": {"isActive": false, "command": "x"}, "on": {"isActive": true, "type": "streamableHttp", "baseUrl": "https://x.example/mcp"}, "e": {"transportType": "sse", "url": "https://x.example/e"}}}`,
		map[string]string{"on": `{"type":"http","url":"https://x.example/mcp"}`, "e": `{"type":"sse","url":"https://x.example/e"}`}, []string{"off: is disabled"}},
	"Cline": {`{"mcpServers": {"off": {"command": "x", "disabled": true}, "on": {"command": "x", "disabled": false, "autoApprove": ["y"], "timeout": 60}, "ws": {"type": "ws", "url": "ws://x"}, "mnt": {"command": "docker", "args": ["run", "-v", "/:/x", "img"]}}}`,
		map[string]string{"on": `{"command":"x","timeout":60000}`}, []string{"off: is disabled", `"on/TOOL"`, `type "ws"`, "option -v"}},
}

func TestClientsFiles(t *testing.T) {
	for name, f := range files {
		entries, notes, err := imports.Convert([]byte(f.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(entries) != len(f.want) {
			t.Errorf("%s: %d entries: %v", name, len(entries), entries)
		}
		for server, want := range f.want {
			var out bytes.Buffer
			e := json.NewEncoder(&out)
			e.SetEscapeHTML(false)
			if err := e.Encode(entries[server]); err != nil || strings.TrimSpace(out.String()) != want {
				t.Errorf("%s, %s: %s, want %s", name, server, out.String(), want)
			}
		}
		said := strings.Join(notes, "\n")
		for _, want := range f.says {
			if !strings.Contains(said, want) {
				t.Errorf("%s: %q is not said in %s", name, want, said)
			}
		}
		if f.says == nil && said != "" {
			t.Errorf("%s: %s", name, said)
		}
	}
}

// A secret that is written out is taken along, and named, never printed in a
// note.
func TestSecretsAreNotRepeated(t *testing.T) {
	_, notes, err := imports.Convert([]byte(`{"mcpServers": {"s": {"command": "x", "env": {"API_KEY": "s3cret-value"}}}}`))
	if said := strings.Join(notes, "\n"); err != nil || !strings.Contains(said, "${API_KEY}") || strings.Contains(said, "s3cret") {
		t.Errorf("%v %s", err, said)
	}
}

// What is in mcp.json stays; the file is valid before and after.
func TestWriting(t *testing.T) {
	dir := t.TempDir()
	from, into := filepath.Join(dir, "cursor.json"), filepath.Join(dir, "mcp.json")
	for file, text := range map[string]string{
		from: `{"mcpServers": {"a": {"command": "new"}, "b": {"command": "new"}}}`,
		into: `{"mcpServers": {"a": {"command": "mine", "env": {"N": "12345678901234567890"}}}}`,
	} {
		if err := os.WriteFile(file, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	var out, errs bytes.Buffer
	if code := imports.Main(t.Context(), []string{"-write", "-into", into, from}, &out, &errs); code != 0 || !strings.Contains(errs.String(), "stays as it is") {
		t.Errorf("%d %s %s", code, out.String(), errs.String())
	}
	raw, err := os.ReadFile(into)
	if err != nil {
		t.Fatal(err)
	}
	config, err := mcpjson.Parse(raw)
	if err != nil || config.Servers["a"].Command != "mine" || config.Servers["b"].Command != "new" {
		t.Errorf("%v: %s", err, raw)
	}
	if info, _ := os.Stat(into); info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v", info.Mode())
	}
	for _, bad := range [][]string{nil, {"a", "b"}, {"-x", from}} {
		if code := imports.Main(t.Context(), bad, &out, &errs); code != 2 {
			t.Errorf("%v: %d", bad, code)
		}
	}
	for text, want := range map[string]string{"{": "not JSON", "[mcp_servers.a]\ncommand = \"x\"": "TOML or YAML", `{"hooks": {"h": [{"command": "x"}]}}`: "no servers", `{"mcpServers": {}}`: "no servers"} {
		errs.Reset()
		if err := os.WriteFile(from, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if code := imports.Main(t.Context(), []string{from}, &out, &errs); code != 1 || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: %d %s", text, code, errs.String())
		}
	}
}

// The reader of comments leaves strings alone and ends on any input.
func FuzzConvert(f *testing.F) {
	for _, file := range files {
		f.Add([]byte(file.text))
	}
	f.Add([]byte(`{"mcpServers": {"a": {"command": "x //", "args": ["/* ,] */"]}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		entries, _, err := imports.Convert(raw)
		if err != nil || len(entries) == 0 {
			return
		}
		text, err := json.Marshal(map[string]any{"mcpServers": entries})
		if err != nil {
			t.Fatal(err)
		}
		if config, err := mcpjson.Parse(text); err != nil || len(config.Broken) > 0 {
			t.Fatalf("it wrote what mcp.json refuses: %v %s", err, text)
		}
	})
}

// Package clients_test lets the clients that people use work through the whole
// chain: each lists the three tools and calls them.
package clients_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// patience bounds one client's whole visit; Node alone takes seconds to start
// on a busy machine.
const patience = rig.Deadline

// written is what sdk.mjs writes.
const written = "written by a real client\n"

func TestGoSDK(t *testing.T) {
	c := rig.StartChain(t, rig.ChainOptions{})
	for _, how := range []rig.Transport{rig.SSE, rig.Streamable} {
		t.Run(string(how), func(t *testing.T) {
			rig.UseThreeTools(t, rig.Connect(t, c.Base, c.Token, how))
		})
	}
}

// The TypeScript SDK in the versions that Poke and today's clients carry, and
// its successor, which negotiates the stateless protocol.
func TestTypeScriptSDK(t *testing.T) {
	modules := rig.NPM(t, "clients")
	script := beside(t, modules, "sdk.mjs")
	c := rig.StartChain(t, rig.ChainOptions{})
	for _, v := range []struct{ name, pkg, how, protocol string }{
		{"1.17.3", "sdk-1-17", "sse", ""},
		{"1.17.3", "sdk-1-17", "mcp", "2025-06-18"},
		{"1.32.2", "sdk-1-32", "sse", ""},
		{"1.32.2", "sdk-1-32", "mcp", "2025-11-25"},
		{"2.4.0", "@modelcontextprotocol/client", "sse", "2025-11-25"},
		{"2.4.0", "@modelcontextprotocol/client", "mcp", "2026-07-28"},
	} {
		t.Run(v.name+"/"+v.how, func(t *testing.T) {
			out := node(t, c.Token, script, v.pkg, v.how, c.Base)
			var got struct {
				Tools                     []string
				Protocol, Stdout, Content string
				Bytes                     int
			}
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatalf("%v in %q", err, out)
			}
			if !slices.Equal(got.Tools, rig.ThreeTools) || got.Stdout != written || got.Content != written || got.Bytes != len(written) {
				t.Errorf("%+v", got)
			}
			if v.protocol != "" && got.Protocol != v.protocol {
				t.Errorf("spoke %s, want %s", got.Protocol, v.protocol)
			}
		})
	}
}

// mcp-remote turns a remote server into a stdio one for desktop clients. It
// tries the transports in the order that its strategy says, and goes on to the
// next only after a 404 or 405.
func TestMCPRemote(t *testing.T) {
	modules := rig.NPM(t, "clients")
	c := rig.StartChain(t, rig.ChainOptions{})
	for _, v := range []struct{ strategy, path string }{
		{"http-first", "/mcp"}, {"http-first", "/sse"},
		{"sse-first", "/sse"}, {"sse-first", "/mcp"},
		{"http-only", "/mcp"}, {"sse-only", "/sse"},
	} {
		t.Run(v.strategy+v.path, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var log bytes.Buffer
			cmd := exec.CommandContext(ctx, "node", modules+"/node_modules/mcp-remote/dist/proxy.js", c.Base+v.path,
				"--transport", v.strategy, "--header", "Authorization:${BEARER}")
			cmd.Env = append(environment(t, c.Token), "BEARER=Bearer "+c.Token)
			cmd.Stderr = &log
			client := mcp.NewClient(&mcp.Implementation{Name: "sallyport-e2e", Version: "1"}, nil)
			session, err := client.Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
			if err != nil {
				t.Fatalf("%v\n%s", err, &log)
			}
			defer session.Close()
			rig.UseThreeTools(t, session)
		})
	}
}

func TestInspectorCLI(t *testing.T) {
	modules := rig.NPM(t, "clients")
	c := rig.StartChain(t, rig.ChainOptions{})
	inspect := func(t *testing.T, how, path string, args ...string) string {
		args = append([]string{modules + "/node_modules/.bin/mcp-inspector", "--cli", c.Base + path,
			"--transport", how, "--header", "Authorization: Bearer " + c.Token}, args...)
		return node(t, c.Token, args...)
	}
	for how, path := range map[string]string{"sse": "/sse", "http": "/mcp"} {
		t.Run(how, func(t *testing.T) {
			list := inspect(t, how, path, "--method", "tools/list")
			for _, name := range rig.ThreeTools {
				if !strings.Contains(list, `"`+name+`"`) {
					t.Errorf("tools/list lacks %s: %s", name, list)
				}
			}
			call := func(name string, args ...string) string {
				all := []string{"--method", "tools/call", "--tool-name", name}
				for _, arg := range args {
					all = append(all, "--tool-arg", arg)
				}
				return inspect(t, how, path, all...)
			}
			call("write_file", "path=inspector.txt", "content=seen")
			for _, out := range []string{
				call("read_file", "path=inspector.txt"),
				call("run_command", "command=cat inspector.txt"),
			} {
				if !strings.Contains(out, "seen") {
					t.Errorf("the file's content is missing in %s", out)
				}
			}
		})
	}
}

// beside copies a script into a folder whose node_modules are the packages':
// Node resolves an import from where the script lies.
func beside(t *testing.T, modules, script string) string {
	t.Helper()
	dir := t.TempDir()
	data, err := os.ReadFile(filepath.Join("testdata", script))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, script), data, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(modules, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, script)
}

// environment is what a client's process sees: no configuration of the user
// who runs the test, and Traefik's self-signed certificate believed.
func environment(t *testing.T, token string) []string {
	home := t.TempDir()
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "MCP_REMOTE_CONFIG_DIR=" + home,
		"TOKEN=" + token, "NODE_TLS_REJECT_UNAUTHORIZED=0"}
}

// node runs a Node program to its end and returns its stdout.
func node(t *testing.T, token string, args ...string) string {
	t.Helper()
	return nodeFor(t, patience, token, args...)
}

// nodeFor is node with another bound.
func nodeFor(t *testing.T, most time.Duration, token string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", args...)
	cmd.Env = environment(t, token)
	cmd.Dir = t.TempDir()
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("node %s: %v\n%s%s", filepath.Base(args[0]), err, &stdout, &stderr)
	}
	return stdout.String()
}

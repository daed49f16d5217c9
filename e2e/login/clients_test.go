package login_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// nodeClient prepares a client that runs on Node and believes Traefik's certificate.
func nodeClient(ctx context.Context, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	home := t.TempDir()
	cmd := exec.CommandContext(ctx, "node", args...)
	cmd.Dir = home
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "MCP_REMOTE_CONFIG_DIR=" + home, "NODE_TLS_REJECT_UNAUTHORIZED=0", "BROWSER=true"}
	return cmd
}

// The TypeScript SDK's OAuth client, in the version of today's clients and its successor:
// discovery, registration, consent, tokens, calls, refresh.
func TestTypeScriptClients(t *testing.T) {
	modules := rig.NPM(t, "clients")
	script, err := os.ReadFile(filepath.Join("testdata", "oauth.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	s := newStand(t, nil)
	for _, pkg := range []string{"sdk-1-32", "@modelcontextprotocol/client"} {
		t.Run(strings.ReplaceAll(pkg, "/", "-"), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), rig.Deadline)
			defer cancel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "oauth.mjs"), script, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(modules, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
				t.Fatal(err)
			}
			cmd := nodeClient(ctx, t, filepath.Join(dir, "oauth.mjs"), pkg, s.sandbox)
			var log strings.Builder
			cmd.Stderr = &log
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			if !lines.Scan() {
				_ = cmd.Wait()
				t.Fatalf("no authorization URL: %s", &log)
			}
			fmt.Fprintln(in, s.agree(t, lines.Text(), "read_file"))
			lines.Scan()
			var got struct {
				Tools, Again []string
				Rotated      bool
			}
			last := lines.Text()
			_ = cmd.Wait()
			if err := json.Unmarshal([]byte(last), &got); err != nil {
				t.Fatalf("%v in %q\n%s", err, last, &log)
			}
			if want := []string{"read_file"}; !slices.Equal(got.Tools, want) || !slices.Equal(got.Again, want) || !got.Rotated {
				t.Errorf("%+v", got)
			}
		})
	}
}

// mcp-remote, by which desktop clients come: it opens a browser and waits on a loopback
// port of its own.
func TestMCPRemote(t *testing.T) {
	modules := rig.NPM(t, "clients")
	s := newStand(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), rig.Deadline)
	defer cancel()
	cmd := nodeClient(ctx, t, modules+"/node_modules/mcp-remote/dist/proxy.js", s.sandbox, "--transport", "http-only")
	pipe, writer := io.Pipe()
	cmd.Stderr = writer
	read := make(chan struct{})
	defer func() { writer.Close(); <-read }() // after the test's end nothing may be logged
	go func() {
		defer close(read)
		at := regexp.MustCompile(`https://\S+/mcp-login/authorize\S+`)
		asked := false
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			t.Log(lines.Text())
			if to := at.FindString(lines.Text()); to != "" && !asked {
				asked = true
				resp, err := http.Get(s.agree(t, to, "read_file").String())
				if err != nil {
					t.Errorf("mcp-remote's callback: %v", err)
					continue
				}
				resp.Body.Close()
			}
		}
	}()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil).Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if got := tools(t, session); !slices.Equal(got, []string{"read_file"}) {
		t.Errorf("%v", got)
	}
}

// The inspector's command line, which logs in by itself: it prints where to go and waits
// on loopback. Its second run uses what the first has stored.
func TestInspectorCLI(t *testing.T) {
	modules := rig.NPM(t, "clients")
	s := newStand(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), rig.Deadline)
	defer cancel()
	home, asked := t.TempDir(), 0
	list := func(extra ...string) string {
		args := append([]string{modules + "/node_modules/.bin/mcp-inspector", "--cli", s.sandbox, "--transport", "http",
			"--callback-url", "http://127.0.0.1:" + freePort(t) + "/oauth/callback", "--method", "tools/list"}, extra...)
		cmd := nodeClient(ctx, t, args...)
		cmd.Env = append(cmd.Env, "HOME="+home, "MCP_AUTO_OPEN_ENABLED=true", "MCP_INSPECTOR_SECRET_STORE=file") // else it wants a terminal and a keychain
		var out strings.Builder
		cmd.Stdout = &out
		said, err := cmd.StderrPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		at := regexp.MustCompile(`https://\S+/mcp-login/authorize\S+`)
		for lines := bufio.NewScanner(said); lines.Scan(); {
			t.Log(lines.Text())
			if to := at.FindString(lines.Text()); to != "" {
				asked++
				resp, err := http.Get(s.agree(t, to, "read_file").String())
				if err != nil {
					t.Fatalf("the inspector's callback: %v", err)
				}
				resp.Body.Close()
			}
		}
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v: %s", err, &out)
		}
		return out.String()
	}
	for _, extra := range [][]string{nil, {"--stored-auth-only"}} {
		if out := list(extra...); !strings.Contains(out, `"read_file"`) || strings.Contains(out, `"run_command"`) {
			t.Errorf("%v: %s", extra, out)
		}
	}
	if asked != 1 {
		t.Errorf("the owner was asked %d times", asked)
	}
}

func freePort(t *testing.T) string {
	addr := rig.FreeAddr(t)
	return addr[strings.LastIndex(addr, ":")+1:]
}

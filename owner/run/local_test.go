package main_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// users are the accounts that must work: the one that runs the tests and, where
// that is root, an ordinary one too.
func users() map[string]int {
	if os.Geteuid() == 0 {
		return map[string]int{"root": 0, "uid 1000": 1000}
	}
	return map[string]int{"me": os.Geteuid()}
}

func TestClientWorksAndCtrlCLeavesNothing(t *testing.T) {
	for name, uid := range users() {
		t.Run(name, func(t *testing.T) {
			s := start(t, folder(t, uid), uid)
			for _, transport := range []string{"sse", "streamable"} {
				c := s.connect(t, transport)
				list, err := c.ListTools(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				var names []string
				for _, tool := range list.Tools {
					names = append(names, tool.Name)
				}
				slices.Sort(names)
				if want := []string{"read_file", "run_command", "write_file"}; !slices.Equal(names, want) {
					t.Errorf("%s: tools %q", transport, names)
				}
				call(t, c, "write_file", map[string]any{"path": transport, "content": "hello from " + transport})
				if got := call(t, c, "read_file", map[string]any{"path": transport}); got["content"] != "hello from "+transport {
					t.Errorf("read_file: %v", got)
				}
				got := call(t, c, "run_command", map[string]any{"command": "cat " + transport + " && id -u"})
				if out, _ := got["stdout"].(string); !strings.HasPrefix(out, "hello from "+transport) || strings.HasSuffix(out, "\n0\n") {
					t.Errorf("run_command: %v", got)
				}
			}
			s.checkNothingRemains(t)
		})
	}
}

// checkNothingRemains presses Ctrl-C while a command runs that has left its
// process group.
func (s *server) checkNothingRemains(t *testing.T) {
	t.Helper()
	mark := "sallyport-" + rand.Text()
	c := s.connect(t, "streamable")
	go c.CallTool(context.WithoutCancel(t.Context()), &mcp.CallToolParams{Name: "run_command", Arguments: map[string]any{
		"command": "setsid sh -c 'sleep 60; : " + mark + "' & sleep 60; : " + mark, "timeout_seconds": 100,
	}})
	for end := time.Now().Add(deadline); len(processes(mark)) < 2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the command does not start")
		}
	}
	s.interrupt(t)
	for pid, line := range processes(mark) {
		t.Errorf("still running: %s", line)
		syscall.Kill(pid, syscall.SIGKILL)
	}
	if _, err := http.Get(s.url); err == nil {
		t.Error("it still listens")
	}
	if strings.Contains(s.out.String()+s.errs.String(), s.token(t)) {
		t.Error("the token was printed")
	}
}

// processes are the command lines that contain mark, by process.
func processes(mark string) map[int]string {
	found := map[int]string{}
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		if raw, err := os.ReadFile(name); err == nil && bytes.Contains(raw, []byte(mark)) {
			pid, _ := strconv.Atoi(strings.Split(name, "/")[2])
			found[pid] = strings.ReplaceAll(string(raw), "\x00", " ")
		}
	}
	return found
}

func TestDoors(t *testing.T) {
	s := start(t, folder(t, os.Geteuid()), os.Geteuid())
	root := strings.TrimSuffix(s.url, "/mcp-sandbox")
	for _, c := range []struct {
		method, url, token string
		want               int
	}{
		{"GET", root + "/healthz", "", 200},
		{"GET", s.url + "/sse", "", 401},
		{"POST", s.url + "/mcp", "", 401},
		{"POST", s.url + "/sse?sessionid=x", "wrong-0123456789012345678901234567", 401},
		{"GET", root + "/.well-known/oauth-protected-resource", "", 404},
		{"GET", root + "/other", s.token(t), 404},
	} {
		req, _ := http.NewRequest(c.method, c.url, nil)
		if c.token != "" {
			req.Header.Set("Authorization", "Bearer "+c.token)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != c.want {
			t.Errorf("%s %s: %d, want %d", c.method, c.url, res.StatusCode, c.want)
		}
	}
	s.interrupt(t)
}

// A terminal that is closed is an end like Ctrl-C, though the shell and the
// kernel may both say so.
func TestClosedTerminalEndsIt(t *testing.T) {
	hangups := make(chan os.Signal, 1) // under nohup the child would inherit that SIGHUP is ignored
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	s := start(t, folder(t, os.Geteuid()), os.Geteuid())
	s.cmd.Process.Signal(syscall.SIGHUP)
	time.Sleep(20 * time.Millisecond) // so that the second is not merged with the first
	s.end(t, syscall.SIGHUP)
}

func TestTokenIsMadeOnceAndPrivate(t *testing.T) {
	dir := folder(t, os.Geteuid())
	s := start(t, dir, os.Geteuid())
	first := s.token(t)
	for name, want := range map[string]os.FileMode{".sallyport": 0o700, ".sallyport/edge": 0o700, ".sallyport/edge/client-token": 0o600} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	s.interrupt(t)
	s = start(t, dir, os.Geteuid())
	if s.token(t) != first {
		t.Error("a second start made another token")
	}
	s.interrupt(t)
}

// The printed line is copied as it is: what it hands to Claude Code must work.
func TestClientLine(t *testing.T) {
	s := start(t, folder(t, os.Geteuid()), os.Geteuid())
	var line string
	for lines := bufio.NewScanner(strings.NewReader(s.out.String())); lines.Scan(); {
		if strings.Contains(lines.Text(), "claude mcp") {
			line = lines.Text()
		}
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "claude"), []byte("#!/bin/sh\nprintf %s \"$4\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	sh := func(script string) []byte {
		cmd := exec.Command("sh", "-c", script)
		cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", script, err)
		}
		return out
	}
	var server struct{ Type, URL, HeadersHelper string }
	if err := json.Unmarshal(sh(line), &server); err != nil || server.URL != s.url+"/mcp" || server.Type != "http" {
		t.Fatalf("%v: %+v", err, server)
	}
	var header struct{ Authorization string }
	if err := json.Unmarshal(sh(server.HeadersHelper), &header); err != nil || header.Authorization != "Bearer "+s.token(t) {
		t.Errorf("the helper prints no usable header: %v", err)
	}
	s.interrupt(t)
}

func TestClearErrors(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	spaced := filepath.Join(folder(t, os.Geteuid()), "my files")
	if err := os.Mkdir(spaced, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		prepare func(dir string)
		env     string
		args    []string
		code    int
		want    string
	}{
		"port taken":          {args: []string{"-addr", taken.Addr().String()}, code: 1, want: "make run PORT=18090\n"},
		"port taken, wishes":  {args: []string{"-addr", taken.Addr().String(), "-workspace", spaced}, code: 1, want: "PORT=18090 WORKSPACE='" + spaced + "'"},
		"no such port":        {args: []string{"-addr", "127.0.0.1:abc"}, code: 1, want: "unknown port: take another port: make run PORT=18090\n"},
		"empty workspace":     {args: []string{"-addr", taken.Addr().String(), "-workspace", ""}, code: 1, want: "make run PORT=18090\n"},
		"workspace missing":   {args: []string{"-workspace", "nowhere"}, code: 2, want: "mkdir -p"},
		"tilde":               {args: []string{"-workspace", "~/nowhere"}, code: 2, want: "nowhere does not exist"},
		"workspace a file":    {prepare: func(d string) { os.WriteFile(d+"/f", nil, 0o644) }, args: []string{"-workspace", "f"}, code: 2, want: "not a directory"},
		"token in workspace":  {args: []string{"-workspace", "."}, code: 2, want: "contains the installation"},
		"not loopback":        {args: []string{"-addr", "0.0.0.0:0"}, code: 2, want: "loopback"},
		"bad setting":         {args: []string{"-token-file", "x/t"}, env: "MCP_TOOLS=nonsense", code: 2, want: "docs/configuration.md lists every setting"},
		"misspelt setting":    {args: []string{"-addr", taken.Addr().String()}, env: "MCP_TOLS=all", code: 1, want: `misspelt?","variable":"MCP_TOLS"`},
		"token file readable": {prepare: loosen, code: 1, want: "0644"},
		"unknown flag":        {args: []string{"-workspce", "x"}, code: 2, want: "see sallyport-run -h"},
		"token too short":     {prepare: shorten, code: 1, want: "the next start makes a new one"},
		"argument":            {args: []string{"extra"}, code: 2, want: "flags only"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, os.Geteuid())
			if c.prepare != nil {
				c.prepare(dir)
			}
			cmd := command(dir, os.Geteuid(), c.args...)
			if c.env != "" {
				cmd.Env = append(cmd.Env, c.env)
			}
			out, err := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.want) {
				t.Errorf("exit code %d (%v):\n%s", code, err, out)
			}
		})
	}
}

// loosen leaves a token file that others can read.
func loosen(dir string) {
	os.MkdirAll(dir+"/.sallyport/edge", 0o700)
	os.WriteFile(dir+"/.sallyport/edge/client-token", []byte(strings.Repeat("a", 40)), 0o644)
	os.Chmod(dir+"/.sallyport/edge/client-token", 0o644)
}

// shorten leaves a token file with next to nothing in it.
func shorten(dir string) {
	os.MkdirAll(dir+"/.sallyport/edge", 0o700)
	os.WriteFile(dir+"/.sallyport/edge/client-token", []byte("\n"), 0o600)
}

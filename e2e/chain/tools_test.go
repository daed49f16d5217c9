package chain_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

const mebi = 1 << 20

type args = rig.Args

// unhurried lifts the limits on how often a client may call, which these tests
// are not about.
func unhurried(yaml string) string {
	return strings.ReplaceAll(yaml, "- name: client\n",
		"- name: client\n              requestsPerMinute: 1000000\n              maxConcurrent: 2000\n              maxStreams: 2000\n")
}

func TestRunCommandThroughTraefik(t *testing.T) {
	withBothProxies(t, func(t *testing.T, fast bool) {
		c := rig.StartChain(t, rig.ChainOptions{FastProxy: fast, Edit: unhurried})
		session := rig.Connect(t, c.Base, c.Token, rig.SSE)
		run := func(command string) args {
			t.Helper()
			return rig.Call(t, session, "run_command", args{"command": command, "timeout_seconds": 60})
		}

		big := run(`head -c 1000000 /dev/zero | tr '\0' o; head -c 1000000 /dev/zero | tr '\0' e >&2`)
		for stream, letter := range map[string]string{"stdout": "o", "stderr": "e"} {
			out, _ := big[stream].(string)
			if n := strings.Count(out, letter); n < 200<<10 || n > 256<<10 || big[stream+"_truncated"] != true {
				t.Errorf("1 MB on %s: %d bytes of it, truncated %v", stream, n, big[stream+"_truncated"])
			}
		}
		if got := run(`printf 'a\377\000b'`)["stdout"]; got != "a\ufffd\x00b" {
			t.Errorf("binary output: %q", got)
		}
		if got := run("go version")["stdout"]; !strings.HasPrefix(fmt.Sprint(got), "go version go1.") {
			t.Errorf("go version: %q", got)
		}

		for command, want := range map[string]args{
			"true":                {"exit_code": 0.0, "signal": "", "timed_out": false},
			"kill -KILL $$":       {"exit_code": -1.0, "signal": "SIGKILL", "timed_out": false},
			"echo no >&2; exit 3": {"exit_code": 3.0, "stderr": "no\n"},
		} {
			got := rig.TryCall(t, session, "run_command", args{"command": command})
			content, _ := got.StructuredContent.(args)
			for key, value := range want {
				if content[key] != value {
					t.Errorf("%s: %s is %v, want %v", command, key, content[key], value)
				}
			}
		}
		for what, arguments := range map[string]args{
			"a working directory outside":  {"command": "pwd", "workdir": "../.."},
			"an absolute one":              {"command": "pwd", "workdir": "/etc"},
			"no time":                      {"command": "true", "timeout_seconds": 0},
			"more than the longest":        {"command": "true", "timeout_seconds": 121},
			"less than none":               {"command": "true", "timeout_seconds": -1},
			"a command that runs too long": {"command": "sleep 100", "timeout_seconds": 1},
		} {
			refused(t, session, what, "run_command", arguments)
		}
		if got := rig.Call(t, session, "run_command", args{"command": "echo done", "timeout_seconds": 120})["stdout"]; got != "done\n" {
			t.Errorf("with the longest timeout: %q", got)
		}
	})
}

// The largest files, in the encodings that cost most on the way, arrive whole.
func TestFilesThroughTraefik(t *testing.T) {
	withBothProxies(t, func(t *testing.T, fast bool) {
		c := rig.StartChain(t, rig.ChainOptions{FastProxy: fast, Edit: unhurried})
		for _, how := range []rig.Transport{rig.SSE, rig.Streamable} {
			session := rig.Connect(t, c.Base, c.Token, how)
			for name, letter := range map[string]string{"letters": "a", "newlines": "\n", "control bytes": "\x01"} {
				content := strings.Repeat(letter, mebi)
				rig.Call(t, session, "write_file", args{"path": "big", "content": content})
				data, err := os.ReadFile(filepath.Join(c.Sandbox.Workspace, "big"))
				if err != nil || string(data) != content {
					t.Errorf("1 MiB of %s over %s: %d bytes on disk, %v", name, how, len(data), err)
				}
				if got := rig.Call(t, session, "read_file", args{"path": "big"})["content"]; got != content {
					t.Errorf("1 MiB of %s over %s came back otherwise", name, how)
				}
			}
			refused(t, session, "1 MiB + 1", "write_file", args{"path": "big", "content": strings.Repeat("b", mebi+1)})
		}
	})
}

func TestFilesInTheWorkspaceOnly(t *testing.T) {
	c := rig.StartChain(t, rig.ChainOptions{Edit: unhurried})
	ws := c.Sandbox.Workspace
	secret := filepath.Join(rig.PublicDir(t), "secret")
	must(t, os.WriteFile(secret, []byte("outside"), 0o666), os.Chmod(secret, 0o666))
	must(t, os.Symlink(secret, filepath.Join(ws, "link")))
	must(t, os.Symlink(filepath.Dir(secret), filepath.Join(ws, "linkdir")))
	must(t, os.Symlink(filepath.Join(filepath.Dir(secret), "new"), filepath.Join(ws, "dangling")))
	must(t, syscall.Mkfifo(filepath.Join(ws, "fifo"), 0o666))
	must(t, os.WriteFile(filepath.Join(ws, "latin1"), []byte("caf\xe9"), 0o644))
	must(t, os.WriteFile(filepath.Join(ws, "large"), bytes.Repeat([]byte("x"), mebi+1), 0o644))
	refusals := map[string]string{
		"..": "../secret", "hidden ..": "a/../../secret", "an absolute path": secret, "a link to a file": "link",
		"a link to a folder": "linkdir/secret", "a dangling link": "dangling", "a missing file under a linked folder": "linkdir/new",
		"a FIFO": "fifo", "a folder": ".",
	}
	if os.Geteuid() == 0 {
		must(t, syscall.Mknod(filepath.Join(ws, "device"), syscall.S_IFCHR|0o666, 1<<8|5)) // /dev/zero
		refusals["a device"] = "device"
	}
	session := rig.Connect(t, c.Base, c.Token, rig.Streamable)
	for what, path := range refusals {
		refused(t, session, "reading "+what, "read_file", args{"path": path})
		refused(t, session, "writing "+what, "write_file", args{"path": path, "content": "x"})
		refused(t, session, "appending to "+what, "write_file", args{"path": path, "content": "x", "append": true})
	}
	refused(t, session, "reading what is not UTF-8", "read_file", args{"path": "latin1"})
	refused(t, session, "reading 1 MiB + 1", "read_file", args{"path": "large"})
	if data, err := os.ReadFile(secret); err != nil || string(data) != "outside" {
		t.Errorf("the file outside: %q, %v", data, err)
	}
	if _, err := os.Lstat(filepath.Join(filepath.Dir(secret), "new")); err == nil {
		t.Error("a file was made outside")
	}
}

func TestWriting(t *testing.T) {
	c := rig.StartChain(t, rig.ChainOptions{Edit: unhurried})
	session := rig.Connect(t, c.Base, c.Token, rig.Streamable)
	path := filepath.Join(c.Sandbox.Workspace, "file")

	first := rig.Call(t, session, "write_file", args{"path": "file", "content": "one\n"})
	must(t, os.Chmod(path, 0o750))
	second := rig.Call(t, session, "write_file", args{"path": "file", "content": "two\n", "append": true})
	if first["created"] != true || second["created"] != false {
		t.Errorf("created: %v, then %v", first["created"], second["created"])
	}
	info, err := os.Stat(path)
	data, _ := os.ReadFile(path)
	if err != nil || info.Mode().Perm() != 0o750 || string(data) != "one\ntwo\n" {
		t.Errorf("after appending: %q, %v, %v", data, info.Mode(), err)
	}

	// A thousand writers of one file: one of them wins whole. The server may say
	// that it is busy; then the writer comes again.
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() {
			content := strings.Repeat(fmt.Sprintf("%04d\n", i), 2000)
			params := &mcp.CallToolParams{Name: "write_file", Arguments: args{"path": "file", "content": content}}
			result, err := session.CallTool(t.Context(), params)
			for err != nil && strings.Contains(err.Error(), "Service Unavailable") {
				time.Sleep(50 * time.Millisecond)
				result, err = session.CallTool(t.Context(), params)
			}
			if err != nil || result.IsError {
				t.Errorf("writer %d: %v %+v", i, err, result)
			}
		})
	}
	all.Wait()
	data, err = os.ReadFile(path)
	if err != nil || len(data) != 10000 || strings.Count(string(data), string(data[:5])) != 2000 {
		t.Errorf("after 1,000 writers: %d bytes beginning with %.10q, %v", len(data), data, err)
	}
	if left, _ := filepath.Glob(filepath.Join(c.Sandbox.Workspace, "*")); len(left) != 1 {
		t.Errorf("left behind: %q", left)
	}
}

// A full disk refuses the new file and leaves the old one whole.
func TestFullDisk(t *testing.T) {
	rig.NeedRoot(t)
	ws := rig.PublicDir(t)
	must(t, syscall.Mount("tmpfs", ws, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "size=1200k,mode=0755"))
	t.Cleanup(func() { syscall.Unmount(ws, syscall.MNT_DETACH) })
	c := rig.StartChain(t, rig.ChainOptions{Sandboxd: rig.SandboxdOptions{Workspace: ws}})
	session := rig.Connect(t, c.Base, c.Token, rig.Streamable)

	old := strings.Repeat("old\n", mebi/8)
	rig.Call(t, session, "write_file", args{"path": "file", "content": old})
	refused(t, session, "writing to a full disk", "write_file", args{"path": "file", "content": strings.Repeat("new\n", mebi/4)})
	if data, err := os.ReadFile(filepath.Join(ws, "file")); err != nil || string(data) != old {
		t.Errorf("the old file: %d bytes, %v", len(data), err)
	}
	// And with room again, the same works.
	must(t, syscall.Mount("tmpfs", ws, "tmpfs", syscall.MS_REMOUNT|syscall.MS_NOSUID|syscall.MS_NODEV, "size=8m,mode=0755"))
	rig.Call(t, session, "write_file", args{"path": "file", "content": strings.Repeat("new\n", mebi/4)})
}

// refused wants a tool error.
func refused(t *testing.T, session *mcp.ClientSession, what, name string, arguments args) {
	t.Helper()
	if got := rig.TryCall(t, session, name, arguments); !got.IsError || len(rig.Text(got)) < 10 {
		t.Errorf("%s: isError %t, %.200q", what, got.IsError, rig.Text(got))
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

package tool_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/jail"
	"github.com/sallyport-dev/sallyport/sandboxd/tool"
)

const (
	ofNetwork   = "Commands have no network, not even loopback"
	ofProcesses = "limit of processes and threads was met"
	perhaps     = "limit of processes and threads may have been met"
	ofTrace     = "Commands have no ptrace"
	ofShell     = "Commands run in /bin/sh"
	ofParent    = "above the workspace"
	ofSetID     = "its mode has the set-user-ID"
	ofRest      = "What a command leaves in the background"
)

// limits are the beginnings of all notices that explain.
var limits = []string{ofNetwork, ofProcesses, perhaps, ofTrace, ofShell, ofParent, ofSetID, ofRest}

// explained checks that of limits the notices have want alone, or none if it is empty.
func explained(t *testing.T, command string, notices []string, want string) {
	t.Helper()
	all := strings.Join(notices, "\n")
	for _, limit := range limits {
		if strings.Contains(all, limit) != (limit == want) {
			t.Errorf("%s: notices %q, want of the limits only %q", command, notices, want)
			return
		}
	}
}

// What a program says in its own words, as each was seen to say it.
func TestFailuresAreExplained(t *testing.T) {
	b := newBox(t)
	for words, want := range map[string]string{
		`ERROR: Could not find a version that satisfies the requirement x (from versions: none)`:     ofNetwork,
		`npm error request to https://npm.example/x failed, reason: getaddrinfo EAI_AGAIN`:           ofNetwork,
		`Error: listen EPERM: operation not permitted 0.0.0.0:3000`:                                  ofNetwork,
		`httptest: failed to listen on a port: listen tcp6 [::1]:0: socket: operation not permitted`: ofNetwork,
		`fatal: unable to access 'https://github.com/a/b/': Could not resolve host: github.com`:      ofNetwork,
		`Connecting to 127.0.0.1:1... failed: Operation not permitted.`:                              ofNetwork,
		`java.net.SocketException: Operation not permitted`:                                          ofNetwork,
		`error connecting to /tmp/tmux-6002/default (Operation not permitted)`:                       ofNetwork,
		`Error: Os { code: 1 }: Operation not permitted (os error 1)`:                                ofNetwork,
		`Failed to listen on localhost:8000 (reason: Operation not permitted)`:                       ofNetwork,
		`chmod: changing permissions of 'd': Operation not permitted`:                                ofSetID,
		`cp: preserving permissions for 'd/e': Operation not permitted`:                              ofSetID,
		`tar: d: Cannot change mode to rwxr-sr-x: Operation not permitted`:                           ofSetID,
		`chmod: changing permissions of '/etc': Read-only file system`:                               "",
		`/bin/sh: 0: Cannot fork`:                                            ofProcesses,
		`bash: fork: retry: Resource temporarily unavailable`:                ofProcesses,
		`runtime: failed to create new OS thread (have 5 already; errno=11)`: ofProcesses,
		`BlockingIOError: [Errno 11] Resource temporarily unavailable`:       perhaps,
		`fork/exec /usr/bin/true: resource temporarily unavailable`:          perhaps,
		`Error: spawn sh EAGAIN`:                                             perhaps,
		`strace: PTRACE_SETOPTIONS: Function not implemented`:                ofTrace,
		`warning: ptrace: Function not implemented`:                          ofTrace,
		`go: open /home/me/sallyport/go.mod: permission denied`:              ofParent,
		`/bin/sh: 1: source: not found`:                                      ofShell,
		`/bin/sh: 1: time: not found`:                                        ofShell,
		`/bin/sh: 1: python: not found`:                                      "",
		`cat: x: Permission denied`:                                          "",
		`chown: changing ownership of 'x': Operation not permitted`:          "",
		`--- FAIL: TestTotal (0.00s)`:                                        "",
	} {
		b.put("words", words+"\n")
		for _, command := range []string{"cat words; exit 1", "cat words >&2; exit 1"} {
			explained(t, words, b.sh(command).Notices, want)
		}
		explained(t, words+", and success", b.sh("cat words").Notices, "")
		hidden := want // behind the exit code of another part
		if want == ofProcesses || want == perhaps {
			hidden = ""
		}
		for _, command := range []string{"cat words | tail", "cat words; true", "cat words\ntrue",
			"(cat words >&2; exit 1) || true"} {
			explained(t, words+": "+command, b.sh(command).Notices, hidden)
		}

		page := b.output(b.start("cat words; exit 1"))
		explained(t, words+", in the background", page.Notices, want)
	}
}

// Real programs, each where it is installed. With the container's network, the
// notice on it would be wrong.
func TestRealFailuresAreExplained(t *testing.T) {
	alone, linked := newBox(t), newBoxIn(t, nil, func(c *tool.Config) { c.Network = jail.Container })
	group, err := jail.New(jail.Config{Mode: jail.Group})
	must(t, err)
	defer group.Close()
	words := newBoxIn(t, group).sh("echo getaddrinfo; exit 1").Notices
	explained(t, "a group, which keeps nobody from a network", words, "")
	for _, row := range []struct{ program, command, want string }{
		{"python3", `python3 -c 'import socket; socket.socket()'`, ofNetwork},
		{"python3", `python3 -m http.server 0`, ofNetwork},
		{"python3", `python3 -c 'import urllib.request as u; u.urlopen("http://127.0.0.1:1")'`, ofNetwork},
		{"python3", `python3 -c 'import multiprocessing as m; m.Manager()'`, ofNetwork},
		{"node", `node -e 'require("http").createServer().listen(0)'`, ofNetwork},
		{"curl", `curl -sS http://127.0.0.1:1`, ofNetwork},
		{"curl", `curl -sS http://host.invalid`, ofNetwork},
		{"wget", `wget --tries=1 http://127.0.0.1:1`, ofNetwork},
		{"git", `git clone https://host.invalid/x`, ofNetwork},
		{"bash", `bash -c 'echo >/dev/tcp/127.0.0.1/1'`, ofNetwork},
		{"flock", `exec 3>held; flock 3; python3 -c 'import fcntl; fcntl.flock(open("held"), 6)'`, perhaps},
		{"dash", `dash -c '. /dev/null; [[ a == a ]]'`, ofShell},
		{"dash", `dash -c 'diff <(echo a) <(echo b)'`, ofShell},
		{"dash", `dash -c 'set -o pipefail'`, ofShell},
		{"dash", `dash -c 'x=abc; echo ${x//a/b}'`, ofShell},
		{"chmod", `touch f; chmod u+s f`, ofSetID},
		{"strace", `strace true`, ofTrace},
		{"gdb", `gdb -batch -ex run true; exit 1`, ofTrace},
	} {
		if _, err := exec.LookPath(row.program); err != nil {
			t.Logf("%s is not installed", row.program)
			continue
		}
		explained(t, row.command, alone.sh(row.command).Notices, row.want)
		if row.want == ofNetwork {
			explained(t, row.command+" with a network", linked.sh(row.command).Notices, "")
		}
	}
}

// describe is a tool's description.
func (b *box) describe(name string) string {
	b.t.Helper()
	list, err := b.client.ListTools(b.t.Context(), nil)
	must(b.t, err)
	return list.Tools[slices.IndexFunc(list.Tools, func(def *mcp.Tool) bool { return def.Name == name })].Description
}

func TestUnixSocketsAreNamed(t *testing.T) {
	for _, refused := range []bool{false, true} {
		b := newBox(t, func(c *tool.Config) { c.NoUnixSockets = refused })
		const words = "not even loopback and no Unix sockets"
		listed := newBox(t, func(c *tool.Config) { c.NoUnixSockets, c.Network = refused, jail.Allowlist })
		if got := listed.describe("run_command"); strings.Contains(got, "Unix sockets are refused") != refused {
			t.Errorf("with an allow-list, Unix sockets refused %t: %s", refused, got)
		}
		got := fmt.Sprint(listed.sh("echo 'error connecting to /tmp/tmux-1/default (Operation not permitted)'; exit 1").Notices)
		if strings.Contains(got, "Commands have no Unix sockets") != refused {
			t.Errorf("with an allow-list, Unix sockets refused %t: %s", refused, got)
		}
		if got := b.describe("run_command"); strings.Contains(got, words) != refused {
			t.Errorf("Unix sockets refused %t: %s", refused, got)
		}
		if got := fmt.Sprint(b.sh("echo name resolution; exit 1").Notices); strings.Contains(got, words) != refused {
			t.Errorf("Unix sockets refused %t: %s", refused, got)
		}
	}
}

// Go looks for go.mod above the workspace: make run's own lies in a module.
func TestModuleAboveTheWorkspace(t *testing.T) {
	if _, err := os.Stat("/usr/local/go/bin/go"); err != nil {
		t.Skip("Go is not where commands look for it")
	}
	above, err := os.MkdirTemp("", "above")
	must(t, err)
	defer os.RemoveAll(above)
	below := filepath.Join(above, "below")
	must(t, os.Mkdir(below, 0o755))
	must(t, os.WriteFile(filepath.Join(above, "go.mod"), []byte("module above\n"), 0o644))
	j, err := jail.New(jail.Config{Mode: jail.Full, Network: jail.None, Writable: []string{below}})
	must(t, err)
	defer j.Close()
	t.Setenv("TMPDIR", below) // the box lies there
	b := newBoxIn(t, j)
	b.put("main.go", "package main\n\nfunc main() {}\n")
	explained(t, "go list", b.sh("go list main.go").Notices, ofParent)
	explained(t, "what the notice says", b.sh("go mod init x && go list .").Notices, "")
	if got := b.sh("go list ."); got.ExitCode != 0 {
		t.Errorf("after go mod init: %+v", got)
	}
}

// With an allow-list each command has a loopback of its own.
func TestAnotherCommandsServer(t *testing.T) {
	const words = "Loopback is each command's own"
	for _, network := range []jail.Network{jail.None, jail.Container, jail.Allowlist} {
		b := newBox(t, func(c *tool.Config) { c.Network = network })
		for _, said := range []string{"curl: (7) Failed to connect to localhost", "connect ECONNREFUSED 127.0.0.1:80"} {
			got := fmt.Sprint(b.sh("echo '" + said + "' >&2; exit 1").Notices)
			if strings.Contains(got, words) != (network == jail.Allowlist) {
				t.Errorf("network %s, %s: %s", network, said, got)
			}
		}
	}
}

func TestLeftInTheBackground(t *testing.T) {
	for command, left := range map[string]bool{
		"sleep 60 &":                                     true,
		"nohup sleep 60 >log 2>&1 &":                     true,
		"(sleep 60 &)":                                   true,
		"sleep 60 & echo started $!":                     true,
		"setsid sleep 60 >/dev/null & disown":            true,
		"nohup sleep 60 >log 2>&1 &\nsleep 0.1\ncat log": true,
		"(setsid sleep 60 &); sleep 0.1":                 true,
		"sleep 60 >log &\nsleep 0.1\ncat log":            false,
		"(sleep 60 &); sleep 0.1; echo used":             false,
		"sleep 60 & echo $!; sleep 0.1; echo used":       false,
		"nohup true && echo done":                        false,
		"sleep 0.1 & sleep 0.1; echo done":               false,
		"sleep 0.1 &\nwait":                              false,
		"sleep 60 &\nkill $!":                            false,
		"true && echo 'a & b' 2>&1":                      false,
		`echo '?a=1&echo=2 (&)'`:                         false,
		"true &&\ntrue |\ncat":                           false,
	} {
		for _, tools := range [][]string{tool.All, tool.Default} {
			b := newBox(t, func(c *tool.Config) { c.Enabled = tools })
			got := b.sh(command)
			want := ""
			if left {
				want = ofRest
			}
			explained(t, command, got.Notices, want)
			if all := len(tools) == len(tool.All); left &&
				strings.Contains(fmt.Sprint(got.Notices), "start_command") != all {
				t.Errorf("%s: all tools %t: %q", command, all, got.Notices)
			}
		}
	}
}

// What an ended command wrote is looked through once, however often it is asked for; each
// page has the notice, since nobody must read them all.
func TestPagesAreExplainedOnce(t *testing.T) {
	b := newBox(t)
	handle := b.start("head -c 300000 /dev/zero | tr '\\0' x; echo 'socket: Operation not permitted' | tee /dev/stderr; touch written; sleep 1000")
	for {
		if _, err := os.Stat(b.path("written")); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	b.raw("stop_command", args{"handle": handle})
	page := func() (allocated uint64) {
		var before, after runtime.MemStats
		var got outputResult
		runtime.ReadMemStats(&before)
		b.call("command_output", args{"handle": handle}, &got)
		runtime.ReadMemStats(&after)
		explained(t, "a page", got.Notices, ofNetwork)
		return after.TotalAlloc - before.TotalAlloc
	}
	first, second := page(), min(page(), page(), page()) // what else runs may allocate too
	t.Logf("%d and %d KiB", first>>10, second>>10)
	if second > first*3/4 {
		t.Errorf("the first page takes %d KiB of memory, the second one %d", first>>10, second>>10)
	}
}

package tool_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/sandboxd/tool"
)

type runResult struct {
	Running         bool
	ExitCode        int `json:"exit_code"`
	Signal          string
	Stdout, Stderr  string
	StdoutTruncated bool  `json:"stdout_truncated"`
	StderrTruncated bool  `json:"stderr_truncated"`
	TimedOut        bool  `json:"timed_out"`
	OOMKilled       *bool `json:"oom_killed"`
	DurationMS      int64 `json:"duration_ms"`
	Handle          string
	Notices         []string
}

// run runs a command and returns its result, whether or not it failed.
func (b *box) run(in args) (runResult, *mcp.CallToolResult) {
	b.t.Helper()
	res := b.raw("run_command", in)
	var out runResult
	if res.StructuredContent == nil {
		b.t.Fatalf("run_command(%v): %s", in, text(res))
	}
	decode(b.t, res, &out)
	return out, res
}

func (b *box) sh(command string) runResult {
	b.t.Helper()
	out, _ := b.run(args{"command": command})
	return out
}

func TestRunCommand(t *testing.T) {
	b := newBox(t)
	got, res := b.run(args{"command": "echo out; echo err >&2; pwd"})
	if res.IsError || got.ExitCode != 0 || got.Stdout != "out\n"+b.dir+"\n" || got.Stderr != "err\n" || got.Running || got.TimedOut || got.StdoutTruncated || got.StderrTruncated {
		t.Errorf("%+v", got)
	}
	if words := text(res); !strings.HasPrefix(words, "exit_code 0 after ") || !strings.HasSuffix(words, " ms\nstdout:\nout\n"+b.dir+"\n\nstderr:\nerr\n") {
		t.Errorf("text %q", words)
	}
}

func TestFailedCommandsAreErrors(t *testing.T) {
	b := newBox(t)
	for command, want := range map[string]runResult{
		"exit 3":                  {ExitCode: 3},
		"no-such-program":         {ExitCode: 127},
		"kill -9 $$":              {ExitCode: -1, Signal: "SIGKILL"},
		"kill -TERM $$; sleep 60": {ExitCode: -1, Signal: "SIGTERM"},
		"if":                      {ExitCode: 2},
	} {
		got, res := b.run(args{"command": command})
		if !res.IsError || got.ExitCode != want.ExitCode || got.Signal != want.Signal || got.TimedOut {
			t.Errorf("%s: isError %t, %+v", command, res.IsError, got)
		}
	}
}

func TestTimeouts(t *testing.T) {
	b := newBox(t)
	var got runResult
	var res *mcp.CallToolResult
	for seconds := 4; got.Stdout == "" && seconds < 60; seconds *= 5 { // on a busy machine it may not have begun
		got, res = b.run(args{"command": "echo begun; sleep 100 & sleep 100", "timeout_seconds": seconds})
	}
	if !res.IsError || !got.TimedOut || got.ExitCode == 0 || got.Stdout != "begun\n" || got.DurationMS < 4000 || got.DurationMS > 60_000 {
		t.Errorf("%+v", got)
	}
	if words := strings.Join(got.Notices, " "); !strings.Contains(words, "ran out of time") ||
		!strings.Contains(words, "timeout_seconds it gets up to 120") || !strings.Contains(words, "use start_command") {
		t.Errorf("notices %s", words)
	}
	for _, seconds := range []int{1, 30, 120} {
		got, _ := b.run(args{"command": "true", "timeout_seconds": seconds})
		if got.ExitCode != 0 && !(seconds == 1 && got.TimedOut) { // a busy machine
			t.Errorf("%d s: %+v", seconds, got)
		}
	}
	for _, seconds := range []any{0, -1, 121, 1 << 40, 1.5, "121", "half a minute", true} {
		words := b.refused("run_command", args{"command": "touch ran", "timeout_seconds": seconds})
		if !strings.Contains(words, "timeout_seconds") {
			t.Errorf("%v: %s", seconds, words)
		}
	}
	if b.exists("ran") {
		t.Error("a command with an illegal timeout ran")
	}
}

func TestBadCommands(t *testing.T) {
	b := newBox(t)
	for name, command := range map[string]string{"empty": "", "blank": " \n\t", "NUL": "echo \x00", "long": "echo " + strings.Repeat("x", 200_000)} {
		if words := b.refused("run_command", args{"command": command}); !strings.HasPrefix(words, "the command ") {
			t.Errorf("%s: %.200s", name, words)
		}
	}
	if got := b.sh("echo " + strings.Repeat("x", 90_000) + " | wc -c"); got.Stdout != "90001\n" {
		t.Errorf("a long command: %+v", got)
	}
}

func TestWorkdir(t *testing.T) {
	b := newBox(t)
	for name, path := range badPaths(b) {
		if name == "empty" || strings.Contains(name, "workspace") && name != "absolute workspace" || strings.HasPrefix(name, "directory") {
			continue // these are directories inside
		}
		if words := b.refused("run_command", args{"command": "touch ran", "workdir": path}); !strings.HasPrefix(words, "workdir: ") {
			t.Errorf("%s: %s", name, words)
		}
	}
	b.put("dir/file", "")
	b.refused("run_command", args{"command": "touch ran", "workdir": "dir/file"})
	if b.exists("ran") {
		t.Error("a command with a bad workdir ran")
	}
	must(t, os.Symlink("dir", b.path("inside")))
	for path, want := range map[string]string{"": "", ".": "", "dir": "/dir", "dir/": "/dir", "inside": "/dir"} {
		if got, _ := b.run(args{"command": "pwd -P", "workdir": path}); got.Stdout != b.dir+want+"\n" {
			t.Errorf("workdir %q: %q", path, got.Stdout)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("MCP_AUTH_TOKEN", "a secret of the server")
	b := newBox(t)
	private := filepath.Join(filepath.Dir(b.dir), "private")
	var names []string
	env := map[string]string{}
	// The shell itself adds PWD, OLDPWD, SHLVL and _: read what it was given.
	for _, line := range strings.Split(strings.TrimRight(b.sh(`tr '\0' '\n' </proc/$$/environ`).Stdout, "\n"), "\n") {
		name, value, _ := strings.Cut(line, "=")
		names, env[name] = append(names, name), value
	}
	slices.Sort(names)
	if want := []string{"ASAN_OPTIONS", "CARGO_NET_RETRY", "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_KEY_1", "GIT_CONFIG_VALUE_0", "GIT_CONFIG_VALUE_1",
		"GOCACHE", "GOPATH", "HOME", "JAVA_TOOL_OPTIONS", "LANG", "LOGNAME", "PATH", "PIP_DISABLE_PIP_VERSION_CHECK", "PIP_RETRIES", "TERM", "TMPDIR", "USER",
		"npm_config_audit", "npm_config_fetch_retries", "npm_config_update_notifier"}; !slices.Equal(names, want) {
		t.Errorf("environment %v, want %v", names, want)
	}
	if env["TMPDIR"] != private+"/local/tmp" || env["HOME"] != private+"/local/home" {
		t.Errorf("%v", env)
	}
	got := b.sh(`set -e; cd "$HOME"; for d in "$HOME" "$GOCACHE" "$GOPATH" "$TMPDIR"; do test -w "$d"; done; echo ok`)
	if got.Stdout != "ok\n" {
		t.Errorf("%+v", got)
	}
	// What a command removed is there again for the next; a link is not followed.
	b.sh(`rm -rf "$HOME" "$GOPATH"; ln -s ` + b.outside + `/made "$GOPATH"`)
	if got := b.sh(`cd "$HOME" && echo ok`); got.Stdout != "ok\n" {
		t.Errorf("%+v", got)
	}
	if _, err := os.Lstat(filepath.Join(b.outside, "made")); err == nil {
		t.Error("a directory was made outside through a link")
	}
}

func TestGoUnderALoginShell(t *testing.T) {
	if _, err := os.Stat("/usr/local/go/bin/go"); err != nil {
		needs(t, "Go in /usr/local/go (%v)", err)
	}
	b := newBox(t)
	if got := b.sh("go version"); got.ExitCode != 0 || !strings.HasPrefix(got.Stdout, "go version go") {
		t.Errorf("%+v", got)
	}
	if got := b.sh("nonsense"); !strings.Contains(got.Stderr, "1: nonsense") && !strings.Contains(got.Stderr, "line 1") {
		t.Errorf("the shell's line numbers are shifted: %q", got.Stderr)
	}
}

func TestOutputIsBounded(t *testing.T) {
	b := newBox(t)
	const limit = tool.DefaultOutputLimit
	for name, c := range map[string]struct {
		command    string
		head, tail string
	}{
		"letters":  {"echo first; yes line | head -c 1000000; echo last", "first\nline\n", "\nlast\n"},
		"controls": {"echo first; head -c 1000000 /dev/zero; echo last", "first\n\x00", "\x00last\n"},
		"runes":    {"echo first; yes €€€ | head -c 1000000; echo last", "first\n€", "last\n"},
		"binary":   {"echo first; head -c 1000000 /dev/urandom; echo last", "first\n", "last\n"},
		"markup":   {"echo first; yes '<' | head -c 1000000; echo last", "first\n<", "<\nlast\n"},
	} {
		got, res := b.run(args{"command": "{ " + c.command + "; } | tee /dev/stderr"})
		for stream, s := range map[string]string{"stdout": got.Stdout, "stderr": got.Stderr} {
			if len(s) > limit || len(s) < limit/8 || !strings.HasPrefix(s, c.head) || !strings.HasSuffix(s, c.tail) || !utf8.ValidString(s) {
				t.Errorf("%s: %s: %d bytes %.20q … %q", name, stream, len(s), s, s[len(s)-20:])
			}
			if !strings.Contains(s, "bytes left out") {
				t.Errorf("%s: %s: the gap is not marked", name, stream)
			}
		}
		if !got.StdoutTruncated || !got.StderrTruncated {
			t.Errorf("%s: not flagged as truncated", name)
		}
		var whole bytes.Buffer
		e := json.NewEncoder(&whole) // as the transport writes it
		e.SetEscapeHTML(false)
		must(t, e.Encode(res))
		// The SDK escapes what the transport takes back (sandboxd/serve).
		if size := len(bytes.ReplaceAll(whole.Bytes(), []byte(`\u003c`), []byte("<"))); size > 4*limit+512<<10 {
			t.Errorf("%s: the answer is %d bytes", name, size)
		}
		if words := text(res); len(words) > 64<<10 || len(words) < 16<<10 || !strings.Contains(words, "exit_code 0") {
			t.Errorf("%s: text of %d bytes: %.100s", name, len(words), words)
		}
	}
	if got := b.sh("head -c 262144 /dev/zero | tr '\\0' a"); len(got.Stdout) != limit || got.StdoutTruncated {
		t.Errorf("exactly the limit: %d bytes, truncated %t", len(got.Stdout), got.StdoutTruncated)
	}
}

// The text says how much is missing in it of all that was written, also where the
// structured output lacks a part already.
func TestTextCountsWhatIsMissing(t *testing.T) {
	b := newBox(t)
	for _, wrote := range []int{100_000, 1_000_000} {
		_, res := b.run(args{"command": fmt.Sprintf("head -c %d /dev/zero | tr '\\0' Q", wrote)})
		words, left := text(res), 0
		if _, rest, found := strings.Cut(words, "[… "); found {
			_, _ = fmt.Sscanf(rest, "%d bytes left out here", &left)
		}
		if shown := strings.Count(words, "Q"); shown+left != wrote || shown > 64<<10 {
			t.Errorf("of %d bytes %d are shown, %d left out", wrote, shown, left)
		}
	}
}

// A flood does not grow the server, however much it is.
func TestFloodIsNotKept(t *testing.T) {
	b := newBox(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, _ := b.run(args{"command": "head -c 200000000 /dev/zero", "timeout_seconds": 120})
	runtime.ReadMemStats(&after)
	if !got.StdoutTruncated {
		t.Errorf("%+v", got.Notices)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
		t.Errorf("200 MB of output took %d MiB of allocations", grown>>20)
	}
}

func TestShortFailureKeepsStderr(t *testing.T) {
	b := newBox(t)
	for i := range 30 {
		if got := b.sh("echo why >&2; exit 1"); got.Stderr != "why\n" {
			t.Fatalf("run %d: %+v", i, got)
		}
	}
}

package attack_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/owner/attack"
)

var token = strings.Repeat("t", 43)

// A sandbox that the attack meets. Its tools answer as the fields say; what it
// runs, it runs nowhere.
type sandbox struct {
	open bool                                 // no token is asked for
	run  func(command string) (stdout string) // what run_command answers
	file func(tool, path string) (text string, ok bool)
}

func held() *sandbox {
	return &sandbox{
		run:  func(string) string { return "refused\n" },
		file: func(string, string) (string, bool) { return "no such path", false },
	}
}

func (s *sandbox) serve(t *testing.T) (url string) {
	server := mcp.NewServer(&mcp.Implementation{Name: "sandbox", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "run_command", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var in struct{ Command string }
		if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
			return nil, err
		}
		out, _ := json.Marshal(map[string]string{"stdout": s.run(in.Command), "stderr": ""})
		return &mcp.CallToolResult{StructuredContent: json.RawMessage(out)}, nil
	})
	for _, name := range []string{"read_file", "write_file"} {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var in struct{ Path string }
			if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
				return nil, err
			}
			text, ok := s.file(name, in.Path)
			return &mcp.CallToolResult{IsError: !ok, Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
		})
	}
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token && !s.open {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	return web.URL
}

// attacked runs the command against a sandbox, and returns its verdict of each
// attempt by name.
func attacked(t *testing.T, s *sandbox, flags ...string) (code int, verdicts map[string]string, out string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code = attack.Main(t.Context(), append(flags, "-token-file", file, s.serve(t)), &stdout, &stderr)
	if stderr.Len() > 0 {
		t.Errorf("stderr: %s", stderr.String())
	}
	verdicts = map[string]string{}
	table, _, _ := strings.Cut(stdout.String(), "\n\n")
	for line := range strings.Lines(table) {
		if verdict, rest, ok := strings.Cut(line, " "); ok && len(rest) > 44 {
			verdicts[strings.TrimSpace(strings.TrimLeft(rest, " ")[:44])] = verdict
		}
	}
	return code, verdicts, stdout.String()
}

// A sandbox that refuses everything: every attempt is held, and none is left out.
func TestEverythingHeld(t *testing.T) {
	code, verdicts, out := attacked(t, held())
	for name, verdict := range verdicts {
		if verdict != "held" {
			t.Errorf("%s: %s", name, verdict)
		}
	}
	if code != 0 || len(verdicts) < 45 || !strings.Contains(out, fmt.Sprintf("\n%d held, 0 allowed on purpose, 0 skipped, 0 got through\n", strings.Count(out, "held  "))) {
		t.Errorf("code %d, %d attempts\n%s", code, len(verdicts), out)
	}
	if strings.Contains(out, token) {
		t.Error("the token is printed")
	}
}

// One restriction off at a time: exactly its row says so, and the exit code does.
func TestOneWallOff(t *testing.T) {
	has := func(word string) func(*sandbox) {
		return func(s *sandbox) {
			s.run = func(command string) string {
				if strings.Contains(command, word) {
					return "refused\nGOT " + word + "\nand more\n"
				}
				return "refused\n"
			}
		}
	}
	reads := func(what string) func(*sandbox) {
		return func(s *sandbox) {
			s.file = func(tool, path string) (string, bool) {
				return "contents", tool == "read_file" && strings.HasSuffix(path, what)
			}
		}
	}
	for name, off := range map[string]func(*sandbox){
		"the server's environment":                has("got cat /proc/$SERVER/environ"),
		"signal the server":                       has("got kill -0 $SERVER"),
		"the server's limits":                     has("got call $(pick 302 261) $SERVER 7"),
		"an MPTCP socket":                         has("got sock 2 1 262"),
		"io_uring":                                has("got call 425 1 0"),
		"write to /var/tmp":                       has("/var/tmp/sallyport-"),
		"read a canary file of this account":      has("got grep -q"),
		"read_file through a link to a file":      reads("/file"),
		"read_file through a link to a directory": reads("/dir/passwd"),
		"hang read_file on a FIFO":                reads("/fifo"),
		"write_file through a dangling link": func(s *sandbox) {
			s.file = func(tool, _ string) (string, bool) { return "written", tool == "write_file" }
		},
		"read_file self/environ by path":        reads("/self/environ"),
		"a client without a token":              func(s *sandbox) { s.open = true },
		"outlive it as 64 processes":            has(`1006` + fmt.Sprint(os.Getpid())[:len(fmt.Sprint(os.Getpid()))-1] + `"'`),
		"outlive the command in the background": has(`1000` + fmt.Sprint(os.Getpid())[:len(fmt.Sprint(os.Getpid()))-1] + `"'`),
	} {
		t.Run(name, func(t *testing.T) {
			s := held()
			off(s)
			code, verdicts, out := attacked(t, s)
			through := strings.Count("\n"+out, "\nTHROUGH ")
			want := 1
			if s.open {
				want = 2 // with a wrong token as well
			}
			if code != 1 || verdicts[name] != "THROUGH" || through != want {
				t.Errorf("code %d, verdict %q, %d got through\n%s", code, verdicts[name], through, out)
			}
		})
	}
}

// What the owner opened on purpose is no failure, and nothing else becomes one.
func TestNetworkOnPurpose(t *testing.T) {
	s := held()
	s.run = func(command string) string {
		if strings.Contains(command, "got sock") {
			return "\nGOT a socket\n"
		}
		return "refused\n"
	}
	if code, _, out := attacked(t, s, "-network"); code != 1 || strings.Count(out, "\nallowed ") != 5 || strings.Count(out, "\nTHROUGH ") != 3 {
		t.Errorf("code %d\n%s", code, out)
	}
}

// Without perl an attempt proves nothing: it is skipped, not held.
func TestSkippedIsNotHeld(t *testing.T) {
	s := held()
	s.run = func(string) string { return "sh: 3: perl: not found\n" }
	_, verdicts, _ := attacked(t, s)
	if verdicts["io_uring"] != "skipped" {
		t.Errorf("%v", verdicts)
	}
}

// What a command prints reaches the terminal as one line of plain text.
func TestProofIsPlain(t *testing.T) {
	s := held()
	s.run = func(string) string { return "first\nlast \x1b[2Jwords\u009b1A\x07\n" }
	if _, _, out := attacked(t, s); strings.ContainsAny(out, "\x1b\x07\u009b") || !strings.Contains(out, `last \u{1b}[2Jwords`) {
		t.Errorf("%q", out)
	}
}

func TestMistakes(t *testing.T) {
	above := t.TempDir() // an installation, and a folder in it
	os.MkdirAll(filepath.Join(above, ".sallyport"), 0o700)
	os.MkdirAll(filepath.Join(above, "docs"), 0o700)
	t.Chdir(filepath.Join(above, "docs"))
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-nonsense"}, 2, "nonsense"},
		{[]string{"a", "b"}, 2, "one URL"},
		{nil, 1, "if you mean the installation in " + above + ", start this there"},
		{[]string{"-token-file", "/nowhere/token"}, 1, "/nowhere/token"},
		{[]string{"-token-file", tokenFile(t), "http://127.0.0.1:1/x"}, 1, "Does it run"},
	} {
		var stdout, stderr bytes.Buffer
		if code := attack.Main(t.Context(), c.args, &stdout, &stderr); code != c.code || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%q: %d %s", c.args, code, stderr.String())
		}
	}
	var stdout, stderr bytes.Buffer
	if code := attack.Main(t.Context(), []string{"-h"}, &stdout, &stderr); code != 0 || stdout.String() != attack.Usage || stderr.Len() > 0 {
		t.Errorf("-h: %d", code)
	}
}

func tokenFile(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// The policy proxy's refusals are held; an answer of Docker's is not.
func TestProxy(t *testing.T) {
	for status, want := range map[int]string{http.StatusForbidden: "held", http.StatusNotFound: "held", http.StatusOK: "THROUGH", http.StatusCreated: "THROUGH"} {
		socket := filepath.Join(t.TempDir(), "proxy.sock")
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "exec") {
				w.WriteHeader(status)
			} else {
				w.WriteHeader(http.StatusForbidden)
			}
			io.WriteString(w, "said")
		})}
		go server.Serve(l)
		t.Cleanup(func() { server.Close() })
		_, _, out := attacked(t, held(), "-proxy-socket", socket)
		if !strings.Contains(out, fmt.Sprintf("%-8s proxy: POST /containers/sallyport-attack/exec", want)) {
			t.Errorf("status %d, want %s:\n%s", status, want, out)
		}
		if n := strings.Count(out, "THROUGH"); (want == "held") != (n == 0) {
			t.Errorf("status %d: %d got through", status, n)
		}
	}
}

// The scripts run in a shell without restrictions here: what harms nobody gets
// through and is seen, what the machine refuses is not.
func TestScriptsInAShell(t *testing.T) {
	dir := t.TempDir()
	s := held()
	s.run = func(command string) string {
		for _, harmless := range []string{"got kill -0 $SERVER", "got sock 1", "got sock 2 2 0", `got sh -c ': > "$PWD/../`, "Max processes"} {
			if strings.Contains(command, harmless) {
				sh := exec.Command("/bin/sh", "-c", command)
				sh.Dir = dir
				out, _ := sh.CombinedOutput()
				return "\n" + string(out)
			}
		}
		return "refused\n"
	}
	_, verdicts, out := attacked(t, s)
	open := []string{"signal the server", "a UDP socket", "write beside the workspace"}
	if os.Geteuid() == 0 { // whom the kernel does not hold to the limit
		open = append(open, "more processes than the limit")
	}
	for _, name := range open {
		if verdicts[name] != "THROUGH" {
			t.Errorf("%s: %q\n%s", name, verdicts[name], out)
		}
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(dir), "sallyport-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("it leaves %q, %v", left, err)
	}
}

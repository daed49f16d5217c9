package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/sandboxd/serve"

	"github.com/sallyport-dev/sallyport/internal/audit"
)

func TestMain(m *testing.M) {
	if os.Getenv("SERVE_TEST_MAIN") != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		os.Exit(serve.Main(ctx, os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// command is "sandboxd" as a process of its own, which may give up root.
func command(t *testing.T, args []string, vars ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append([]string{"SERVE_TEST_MAIN=1", "PATH=" + os.Getenv("PATH"), "MCP_JAIL=group"}, vars...)
	return cmd
}

// files makes a workspace and a token file outside it.
func files(t *testing.T) (workspace, tokenFile string) {
	t.Helper()
	// Not t.TempDir: nobody but its owner can enter that, and the server gives
	// up root for another user.
	dir, err := os.MkdirTemp("", "serve-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	workspace, tokenFile = filepath.Join(dir, "work"), filepath.Join(dir, "token")
	if err := errors.Join(os.Mkdir(workspace, 0o755), os.WriteFile(tokenFile, []byte(token+"\n"), 0o600), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	return workspace, tokenFile
}

// The whole process: it serves, and an end by SIGTERM leaves no process, no
// private directory and exit code 0.
func TestMainServesAndEnds(t *testing.T) {
	workspace, tokenFile := files(t)
	tmp := filepath.Join(filepath.Dir(tokenFile), "tmp")
	if err := errors.Join(os.Mkdir(tmp, 0o777), os.Chmod(tmp, 0o777)); err != nil {
		t.Fatal(err)
	}
	records := filepath.Join(filepath.Dir(tokenFile), "audit", "audit.jsonl")
	if err := os.Mkdir(filepath.Dir(records), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := command(t, []string{"-addr", "127.0.0.1:0"}, "MCP_WORKSPACE="+workspace, "MCP_AUTH_TOKEN_FILE="+tokenFile, "MCP_AUDIT_FILE="+records, "TMPDIR="+tmp)
	log := &buffer{}
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address := make(chan string, 1)
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		readLog(out, log, address)
	}()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the server's log: %s", log)
		}
	})
	s := &server{URL: "http://" + receive(t, "the server serves", address) + "/mcp-sandbox"}

	if resp, _ := send(t, "GET", s.URL+"/mcp", with(as("", ""), "X-Long", strings.Repeat("x", 100_000)), ""); resp.StatusCode != 431 {
		t.Errorf("a header of 100 kB: %d", resp.StatusCode)
	}
	if got := rawRequest(t, s, "OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 404 ") {
		t.Errorf("OPTIONS *: %q", got)
	}
	c, _ := connect(t, s, "2025-11-25", as("token:poke", "*"))
	if r, err := call(t, c, "run_command", map[string]any{"command": "echo hello > greeting && cat greeting && mkdir -p $TMPDIR/mod/x && chmod 500 $TMPDIR/mod"}); err != nil || !strings.Contains(text(r), "hello") {
		t.Errorf("run_command: %v %v\n%s", r, err, log)
	}
	if data, err := os.ReadFile(filepath.Join(workspace, "greeting")); err != nil || string(data) != "hello\n" {
		t.Errorf("in the workspace: %q %v", data, err)
	}
	go func() {
		_, _ = c.CallTool(context.Background(), &mcp.CallToolParams{Name: "run_command",
			Arguments: map[string]any{"command": "sleep 600 & echo $! > pid.tmp; mv pid.tmp pid; sleep 600"}})
	}()
	var pid int
	eventually(t, "the command runs", func() bool {
		data, err := os.ReadFile(filepath.Join(workspace, "pid"))
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(data)))
		}
		return err == nil && pid > 1
	})
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("the command's child is not there: %v", err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	receive(t, "the log ends", logged)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v\n%s", err, log)
	}
	eventually(t, "the command's child is gone", func() bool { return syscall.Kill(pid, 0) != nil })
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	checkAudit(t, records)
	if strings.Contains(log.String(), token) {
		t.Error("the log holds the token")
	}
}

// rawRequest sends text as it is and returns the answer, for what http.Client
// does not send.
func rawRequest(t *testing.T, s *server, text string) string {
	t.Helper()
	host, _, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), "/")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// readLog copies a JSON log and sends the address in it.
func readLog(r io.Reader, log *buffer, address chan<- string) {
	for scan := bufio.NewScanner(r); scan.Scan(); {
		_, _ = log.Write(append(scan.Bytes(), '\n'))
		var line struct{ Msg, Address string }
		if json.Unmarshal(scan.Bytes(), &line) == nil && line.Msg == "serving" {
			address <- line.Address
		}
	}
}

func checkAudit(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := audit.Verify(path, audit.VerifyOptions{}); err != nil || r.Finding != nil || r.Signed != r.Last {
		t.Errorf("%+v, %v", r, err)
	}
	var got []string
	_ = audit.Lines(path, func(l audit.Line) bool {
		r, _ := l.Record()
		if got = append(got, r.Kind+" "+r.Verdict); r.Kind == audit.KindBegin && (r.Principal != "token:poke" || r.Tool != "run_command" || r.Session == "" || r.InputBytes < 10) {
			t.Errorf("%s", l.Text)
		}
		return true
	})
	if want := "open , begin , end ok, begin , end error"; strings.Join(got, ", ") != want {
		t.Errorf("records %q, want %q", got, want)
	}
	if bytes.Contains(data, []byte("greeting")) {
		t.Errorf("the audit holds an argument: %s", data)
	}
}

func TestMainRefusesSettings(t *testing.T) {
	workspace, tokenFile := files(t)
	inside := filepath.Join(workspace, "token")
	if err := os.WriteFile(inside, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(filepath.Dir(tokenFile), "link")
	if err := os.Symlink(workspace, link); err != nil {
		t.Fatal(err)
	}
	owner := filepath.Join(t.TempDir(), "owner-key")
	if err := os.WriteFile(owner, []byte("missing"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(filepath.Dir(tokenFile), "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	good := []string{"MCP_WORKSPACE=" + workspace, "MCP_AUTH_TOKEN_FILE=" + tokenFile}
	for _, c := range []struct {
		name string
		vars []string
		says []string
	}{
		{"nothing", nil, []string{"2 mistakes", "MCP_WORKSPACE is required", "MCP_AUTH_TOKEN_FILE is required"}},
		{"no workspace", append(good[1:2:2], "MCP_WORKSPACE="+workspace+"/none"), []string{"must exist"}},
		{"workspace is a file", append(good[1:2:2], "MCP_WORKSPACE="+tokenFile), []string{"not a directory"}},
		{"workspace is /", append(good[1:2:2], "MCP_WORKSPACE=/"), []string{"choose the directory"}},
		{"token in the workspace", append(good[0:1:1], "MCP_AUTH_TOKEN_FILE="+inside), []string{inside, `"` + workspace + `"`}},
		{"token in the workspace, by a link", append(good[0:1:1], "MCP_AUTH_TOKEN_FILE="+link+"/token"), []string{link + "/token", `"` + workspace + `"`}},
		{"audit in the workspace", append(good[:2:2], "MCP_AUDIT_FILE="+workspace+"/audit"), []string{"MCP_AUDIT_FILE", `"` + workspace + `"`}},
		{"audit in /etc", append(good[:2:2], "MCP_AUDIT_FILE=/etc/sallyport-audit"), []string{"MCP_AUDIT_FILE", `"/etc"`}},
		{"audit in /tmp of a container", append(good[:2:2], "MCP_AUDIT_FILE=/tmp/sallyport-audit", "MCP_IN_CONTAINER=true"), []string{`"/tmp"`}},
		{"the unit's key is missing", append(good[1:2:2], "MCP_WORKSPACE="+empty, "MCP_OWNER_SOCKET="+owner+".sock", "MCP_OWNER_KEY_FILE="+owner), []string{"sallyport token key /etc/sallyport/owner-key"}},
		{"unknown tool", append(good[:2:2], "MCP_TOOLS=read_file,nonsense"), []string{`no tool "nonsense"`}},
		{"numbers", append(good[:2:2], "MCP_MAX_SESSIONS=0", "MCP_OUTPUT_LIMIT=1"), []string{"MCP_MAX_SESSIONS", "MCP_OUTPUT_LIMIT"}},
		{"jail", append(good[:2:2], "MCP_JAIL=none", "MCP_COMMAND_NETWORK=host"), []string{"MCP_JAIL", "MCP_COMMAND_NETWORK"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := command(t, nil, c.vars...).CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 2 {
				t.Errorf("ended with %v, want exit code 2", err)
			}
			for _, text := range c.says {
				if !bytes.Contains(out, []byte(text)) {
					t.Errorf("the message lacks %q: %s", text, out)
				}
			}
		})
	}
	if _, err := os.Stat("/etc/sallyport-audit"); err == nil {
		t.Error("a refused audit file was made")
	}
}

func TestMainHelp(t *testing.T) {
	out, err := command(t, []string{"-h"}).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range new(serve.Settings).Table().Settings {
		if !bytes.Contains(out, []byte(s.Env)) {
			t.Errorf("the help lacks %s", s.Env)
		}
	}
}

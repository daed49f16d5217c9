package main_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// deadline is for what should happen at once: only what never happens meets it.
const deadline = 60 * time.Second

var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "sallyport-local-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "sallyport-run")
	build := exec.Command("go", "build", "-o", binary, "github.com/sallyport-dev/sallyport/owner/run")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		panic(string(out))
	}
	os.Chmod(dir, 0o755)
	os.Chmod(binary, 0o755)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// server is a running "sallyport-run".
type server struct {
	cmd       *exec.Cmd
	dir, url  string
	out, errs *log
	ended     chan struct{}
}

type log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) { l.mu.Lock(); defer l.mu.Unlock(); return l.buf.Write(p) }
func (l *log) String() string              { l.mu.Lock(); defer l.mu.Unlock(); return l.buf.String() }

// folder is a fresh directory of the user.
func folder(t *testing.T, uid int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sallyport-local-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func command(dir string, uid int, args ...string) *exec.Cmd {
	cmd := exec.Command(binary, append([]string{"-addr", "127.0.0.1:0"}, args...)...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	if os.Geteuid() == 0 && uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	return cmd
}

var ready = regexp.MustCompile(`URL +(\S+)/mcp `)

func start(t *testing.T, dir string, uid int, args ...string) *server {
	t.Helper()
	return startCommand(t, command(dir, uid, args...), dir)
}

// startCommand waits until the server that cmd is gets ready.
func startCommand(t *testing.T, cmd *exec.Cmd, dir string) *server {
	t.Helper()
	s := &server{cmd: cmd, dir: dir, out: &log{}, errs: &log{}, ended: make(chan struct{})}
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.errs
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.cmd.Wait(); close(s.ended) }()
	t.Cleanup(func() {
		s.cmd.Process.Kill()
		<-s.ended
		if t.Failed() {
			t.Logf("stdout:\n%s\nstderr:\n%s", s.out, s.errs)
		}
	})
	for end := time.Now().Add(deadline); ; time.Sleep(10 * time.Millisecond) {
		if m := ready.FindStringSubmatch(s.out.String()); m != nil {
			s.url = m[1]
			return s
		}
		select {
		case <-s.ended:
			t.Fatalf("it ended: %v\n%s%s", s.cmd.ProcessState, s.out, s.errs)
		default:
		}
		if time.Now().After(end) {
			t.Fatal("it does not get ready")
		}
	}
}

// interrupt presses Ctrl-C and waits for the end.
func (s *server) interrupt(t *testing.T) {
	t.Helper()
	s.end(t, os.Interrupt)
}

// end sends a signal that ends the server in good order, and waits.
func (s *server) end(t *testing.T, signal os.Signal) {
	t.Helper()
	s.cmd.Process.Signal(signal)
	select {
	case <-s.ended:
	case <-time.After(deadline):
		t.Fatal("it does not end")
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d after %v", code, signal)
	}
}

func (s *server) token(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.dir, ".sallyport/edge/client-token"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(raw), "\n")
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func (s *server) connect(t *testing.T, transport string) *mcp.ClientSession {
	t.Helper()
	client := &http.Client{Transport: bearer(s.token(t))}
	var tr mcp.Transport = &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp", HTTPClient: client}
	if transport == "sse" {
		tr = &mcp.SSEClientTransport{Endpoint: s.url + "/sse", HTTPClient: client}
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), tr, nil)
	if err != nil {
		t.Fatalf("%s: %v", transport, err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

func call(t *testing.T, s *mcp.ClientSession, name string, args map[string]any) map[string]any {
	t.Helper()
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	raw, _ := json.Marshal(res)
	if res.IsError {
		t.Fatalf("%s: %s", name, raw)
	}
	structured, ok := res.StructuredContent.(map[string]any)
	if !ok {
		t.Fatalf("%s: no structured result: %s", name, raw)
	}
	return structured
}

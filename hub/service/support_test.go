package service_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/dockerproxy/wire"
	"github.com/sallyport-dev/sallyport/hub/service"
	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/desk"
	"github.com/sallyport-dev/sallyport/jail"
	"github.com/sallyport-dev/sallyport/jail/jailtest"
)

// self is this test binary, open since before root was given up.
var self *os.File

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "fake" {
		fakeMain(os.Args[2])
		os.Exit(0)
	}
	self, _ = os.Open("/proc/self/exe")
	jailtest.Main(m)
}

const token = "0123456789abcdef0123456789abcdef"

// patience bounds every wait for an event; it is no measure of anything.
const patience = 60 * time.Second

// bench is a hub under test with its configuration and its log.
type bench struct {
	*service.Hub
	t      *testing.T
	URL    string // of the base path
	config string // the file
	state  string
	log    *buffer
	desk   *desk.Desk
	audit  *buffer
}

// start runs a hub on the entries (name to JSON).
func start(t *testing.T, entries map[string]string, change func(*service.Settings)) *bench {
	t.Helper()
	b := &bench{t: t, config: filepath.Join(t.TempDir(), "mcp.json"), state: t.TempDir(), log: &buffer{}}
	b.write(entries)
	b.audit = &buffer{}
	records, err := audit.Open(audit.Options{File: "-", Stdout: b.audit})
	if err != nil {
		t.Fatal(err)
	}
	b.desk = desk.New(records, nil)
	set := service.Settings{ServersFile: b.config, StateDir: b.state, MaxSessions: 256, MaxTasks: 1024, IdleMinutes: 60, CallTimeout: patience, Jail: jail.Full}
	set.BasePath, set.Token, set.Hosts = "/mcp-hub", token, []string{"127.0.0.1"}
	if change != nil {
		change(&set)
	}
	h, err := service.New(set, b.desk, slog.New(slog.NewTextHandler(b.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h.Handler())
	t.Cleanup(func() { h.Close(); srv.Close() })
	b.Hub, b.URL = h, srv.URL+set.BasePath
	return b
}

func (b *bench) write(entries map[string]string) {
	b.t.Helper()
	raw := map[string]json.RawMessage{}
	for name, entry := range entries {
		if before, after, fake := strings.Cut(entry, "@fake"); fake {
			entry = before + b.install(name) + after
		}
		raw[name] = json.RawMessage(entry)
	}
	data, err := json.Marshal(map[string]any{"mcpServers": raw})
	if err == nil {
		err = os.WriteFile(b.config, data, 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// stdio is an entry that starts this test binary as a fake server; start puts
// it where a jailed process may execute it.
func stdio(mode string) string {
	return fmt.Sprintf(`{"type":"stdio","command":"@fake","args":["fake",%q],"env":{"FAKE":"yes"}}`, mode)
}

// install copies the test binary into a server's private directory.
func (b *bench) install(name string) string {
	b.t.Helper()
	dir := filepath.Join(b.state, "stdio", name)
	file := filepath.Join(dir, "fake")
	if _, err := os.Stat(file); err == nil {
		return file
	}
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o700); err == nil {
			_, err = io.Copy(f, io.NewSectionReader(self, 0, 1<<40))
			f.Close()
		}
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return file
}

// listener serves fakes on a unix socket or a TCP port.
type listener struct {
	net.Listener
	mu    sync.Mutex
	conns int
	saw   []message
	mode  string
}

func listen(t *testing.T, network string) (*listener, string) {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "s")
	}
	inner, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{Listener: inner}
	t.Cleanup(func() { l.Close() })
	go l.accept()
	if network == "unix" {
		return l, fmt.Sprintf(`{"type":"unix","socket":%q}`, address)
	}
	return l, fmt.Sprintf(`{"type":"tcp","host":"127.0.0.1","port":%d}`, inner.Addr().(*net.TCPAddr).Port)
}

func (l *listener) accept() {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		l.mu.Lock()
		l.conns++
		mode := l.mode
		l.mu.Unlock()
		go func() {
			defer c.Close()
			newFake(mode, c, l.note).serve(c)
		}()
	}
}

// be is what every fake from now on does.
func (l *listener) be(mode string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mode = mode
}

func (l *listener) note(m message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.saw = append(l.saw, m)
}

func (l *listener) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conns
}

// heard reports whether any connection brought this method.
func (l *listener) heard(method string) bool { return l.times(method) > 0 }

func (l *listener) times(method string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.saw {
		if m.Method == method {
			n++
		}
	}
	return n
}

// proxy is a policy proxy without Docker: each attach is a fake server.
func proxy(t *testing.T) (*listener, string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "p")
	inner, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{Listener: inner}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go l.dialogue(c.(*net.UnixConn))
		}
	}()
	return l, socket
}

func (l *listener) dialogue(c *net.UnixConn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for verb := ""; verb != wire.VerbAttach; {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		q, err := wire.ParseRequest(line)
		if err != nil {
			fmt.Fprintf(c, `{"ok":false,"code":"denied","error":%q}`+"\n", err.Error())
			return
		}
		verb = q.Verb
		fmt.Fprintln(c, `{"ok":true}`)
	}
	l.mu.Lock()
	l.conns++
	l.mu.Unlock()
	newFake("", frames{c}, l.note).serve(in)
	end, _ := json.Marshal(wire.End{Reason: wire.EndExited})
	_ = wire.WriteFrame(c, wire.FrameEnd, end)
}

type frames struct{ io.Writer }

func (f frames) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		piece := p[n:min(len(p), n+1000)]
		err = wire.WriteFrame(f.Writer, wire.FrameStdout, piece)
		n += len(piece)
	}
	return n, err
}

const docker = `{"type":"docker","image":"fake@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}`

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// eventually waits for what must come true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// as are the headers of a principal that the edge let in.
func as(principal, tools string) http.Header {
	return http.Header{"X-Sallyport-Principal": {principal}, "X-Sallyport-Tools": {tools}}
}

// do sends a request with the backend's token.
func (b *bench) do(method, path, body string, h http.Header) *http.Response {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.URL+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	for name, values := range h {
		req.Header[name] = values
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp
}

// status reads GET <base>/status, as it is now: an answer may be a moment old.
func (b *bench) status(name string) (state, reason string) {
	b.t.Helper()
	resp, looks := (*http.Response)(nil), service.Looks(b.Hub)
	for service.Looks(b.Hub) == looks {
		if resp != nil {
			resp.Body.Close()
			time.Sleep(20 * time.Millisecond)
		}
		resp = b.do("GET", "/status", "", nil)
	}
	defer resp.Body.Close()
	var all struct {
		Servers map[string]struct{ State, Reason string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		b.t.Fatal(err)
	}
	return all.Servers[name].State, all.Servers[name].Reason
}

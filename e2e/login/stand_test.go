// Package login_test tries login as clients and browsers meet it: behind the real
// Traefik and plugin, with a real sandbox behind those.
package login_test

import (
	"crypto/tls"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

const password = "correct horse battery staple"

// stand is the chain with login on.
type stand struct {
	origin, issuer, sandbox string // public URLs
	login                   *rig.Process
	env                     []string // login's
	dir                     string
	traefik                 *rig.Traefik
	workspace               string
}

// newStand starts all of it; edit may change login.json.
func newStand(t *testing.T, edit func(config map[string]any)) *stand {
	t.Helper()
	sandbox := rig.StartSandboxd(t, rig.SandboxdOptions{Env: []string{"MCP_REQUIRE_EDGE=true"}})
	secure, addr := rig.FreeAddr(t), rig.FreeAddr(t)
	s := &stand{origin: "https://localhost:" + secure[strings.LastIndex(secure, ":")+1:], dir: t.TempDir(), workspace: sandbox.Workspace}
	s.issuer, s.sandbox = s.origin+"/mcp-login", s.origin+"/mcp-oauth/sandbox/mcp"
	raw, err := os.ReadFile(filepath.Join(rig.Root(t), "deploy", "login.json"))
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(raw), "@LOGIN@", s.origin)), &config); err != nil {
		t.Fatal(err)
	}
	config["ownHost"] = true
	if edit != nil {
		edit(config)
	}
	if raw, err = json.Marshal(config); err == nil {
		err = os.WriteFile(filepath.Join(s.dir, "login.json"), raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.env = append(os.Environ(), "LOGIN_ADDR="+addr, "LOGIN_STATE_DIR="+filepath.Join(s.dir, "state"), "LOGIN_CONFIG="+filepath.Join(s.dir, "login.json"),
		"LOGIN_REVOKED_FILE="+filepath.Join(s.dir, "revoked", "revoked"))
	s.startLogin(t, addr)
	s.verb(t, password, "password")
	files := rig.Files{EdgeDir: s.dir, SandboxToken: sandbox.TokenFile, SandboxAddr: sandbox.Addr, LoginAddr: addr, RevokedDir: filepath.Join(s.dir, "revoked")}
	_, token := rig.NewToken(t)
	if err := os.Rename(token, filepath.Join(s.dir, "client-token")); err != nil {
		t.Fatal(err)
	}
	s.traefik = rig.StartTraefik(t, rig.TraefikOptions{Dynamic: files.Dynamic(t), Secure: secure, Env: []string{"SALLYPORT_LOGIN=" + s.origin}})
	return s
}

func (s *stand) startLogin(t *testing.T, addr string) {
	t.Helper()
	cmd := exec.Command(rig.Binary(t, "sallyport-login"))
	cmd.Env = s.env
	s.login = rig.Start(t, cmd)
	rig.Until(t, "login's health endpoint", func() bool { return rig.Status("http://"+addr+"/healthz") == 200 }, s.login)
}

// verb runs one of the owner's verbs.
func (s *stand) verb(t *testing.T, in string, args ...string) string {
	t.Helper()
	cmd := exec.Command(rig.Binary(t, "sallyport-login"), args...)
	cmd.Env, cmd.Stdin = s.env, strings.NewReader(in+"\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("sallyport-login %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// insecure trusts Traefik's own certificate and follows no redirect.
func insecure() *http.Client {
	jar, _ := cookiejar.New(nil)
	return &http.Client{
		Jar: jar, Timeout: rig.Deadline, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// send returns status, headers and body of one request.
func send(t *testing.T, c *http.Client, method, to string, body string, header ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequest(method, to, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(raw)
}

const formType = "application/x-www-form-urlencoded"

var (
	hidden  = regexp.MustCompile(`type="hidden" name="([a-z]+)" value="([^"]*)"`)
	refresh = regexp.MustCompile(`http-equiv="refresh" content="0;url=([^"]*)"`)
)

// agree plays the owner: signs in, ticks, allows, and returns where the browser lands.
func (s *stand) agree(t *testing.T, authorize string, ticks ...string) *url.URL {
	t.Helper()
	c := insecure()
	if code, _, body := send(t, c, "POST", s.issuer+"/sign-in", url.Values{"password": {password}}.Encode(), "Content-Type", formType); code != 303 {
		t.Fatalf("signing in: %d %s", code, body)
	}
	code, _, page := send(t, c, "GET", authorize, "")
	f := url.Values{"tools": ticks, "days": {"30"}, "decision": {"allow"}}
	for _, m := range hidden.FindAllStringSubmatch(page, -1) {
		f.Set(m[1], html.UnescapeString(m[2]))
	}
	if code != 200 || f.Get("request") == "" {
		t.Fatalf("no consent page: %d %s", code, page)
	}
	_, _, page = send(t, c, "POST", s.issuer+"/consent", f.Encode(), "Content-Type", formType)
	m := refresh.FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("the page leads nowhere: %s", page)
	}
	to, err := url.Parse(html.UnescapeString(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	return to
}

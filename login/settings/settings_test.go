package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func load(t *testing.T, config string, env ...string) (*Settings, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "login.json")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"LOGIN_CONFIG": file, "LOGIN_STATE_DIR": "/var/lib/login"}
	for i := 0; i < len(env); i += 2 {
		all[env[i]] = env[i+1]
	}
	return Load(nil, func(name string) (string, bool) { v, ok := all[name]; return v, ok }, true)
}

const good = `{"issuer":"https://host.example/mcp-login","resources":[{"url":"https://host.example/mcp-oauth/sandbox/mcp","grants":["read_file"]}]}`

func TestDefaults(t *testing.T) {
	s, err := load(t, good)
	if err != nil {
		t.Fatal(err)
	}
	r := s.Config.Resources[0]
	if s.Addr != "127.0.0.1:18083" || s.RevokedFile != "/var/lib/login-revoked/revoked" || s.Config.Subject != "owner" || s.Config.OwnHost ||
		r.Days != 90 || r.Name != r.URL || len(*r.Ticked) != 1 || s.Config.Base != "/mcp-login" {
		t.Errorf("%+v", s)
	}
}

// Every mistake stands in the one message.
func TestAllMistakesAtOnce(t *testing.T) {
	_, err := load(t, `{"issuer":"http://host.example/mcp-login","subject":"a b","resources":[
		{"url":"http://host.example/x","grants":["a b"],"egress":["x y"],"ticked":["z"],"expires":"0d"}]}`,
		"LOGIN_ADDR", "0.0.0.0:1", "LOGIN_STATE_DIR", "", "LOGIN_IN_CONTAINER", "maybe")
	for _, part := range []string{"issuer", "subject", "url", `grant "a b"`, `egress "x y"`, `ticked "z"`, `expires "0d"`, "LOGIN_ADDR", "LOGIN_STATE_DIR", "LOGIN_IN_CONTAINER"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s is not named in: %v", part, err)
		}
	}
}

func TestIssuers(t *testing.T) {
	for issuer, ok := range map[string]bool{
		"https://host.example/mcp-login": true, "https://login.example": true, "http://localhost:8080/mcp-login": true, "http://127.0.0.1/mcp-login": true,
		"http://[::1]:1/x": true, "https://host.example/mcp-login/": false, "https://login.example/": false, "": false, "host.example/mcp-login": false,
		"https://u@host.example/x": false, "https://host.example/x?y": false, "https://host.example/x#y": false, "ftp://host.example/x": false,
		"http://localhost.example/x": false, "https:///x": false,
	} {
		if _, err := load(t, strings.Replace(good, "https://host.example/mcp-login", issuer, 1)); (err == nil) != ok {
			t.Errorf("%q: %v", issuer, err)
		}
	}
}

func TestFiles(t *testing.T) {
	for _, bad := range []string{"/var/lib/login/revoked", "/var/lib/login/sub/revoked", "/var/lib/login/../login/revoked"} {
		if _, err := load(t, good, "LOGIN_REVOKED_FILE", bad); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
	for _, ok := range []string{"/run/revoked/revoked", "/var/lib/login-revoked/revoked", "/var/lib/loginx/r"} {
		if _, err := load(t, good, "LOGIN_REVOKED_FILE", ok); err != nil {
			t.Error(err)
		}
	}
	if _, err := load(t, good, "LOGIN_ADDR", ":18083", "LOGIN_IN_CONTAINER", "true"); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"{", good + "{}", `{"issuer":"https://a.example","resource":[]}`, "[]", "null"} {
		if _, err := load(t, bad); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

func TestFind(t *testing.T) {
	c := &Config{Resources: []Resource{{URL: "https://host.example/mcp-oauth/hub/"}, {URL: "https://host.example/mcp-oauth/sandbox/mcp"}}}
	sandbox, hub := "https://host.example/mcp-oauth/sandbox/mcp", "https://host.example/mcp-oauth/hub"
	for named, want := range map[string]string{
		"": sandbox, sandbox: sandbox, sandbox + "/": sandbox, "HTTPS://HOST.example:443/mcp-oauth/sandbox/mcp": sandbox,
		hub: hub, hub + "/": hub, hub + "/hub/mcp": hub + "/hub/mcp", hub + "/servers/a.b/mcp/": hub + "/servers/a.b/mcp",
		sandbox + "/x": "", sandbox + "?x": "", sandbox + "#x": "", "https://u@host.example/mcp-oauth/sandbox/mcp": "", "http://host.example/mcp-oauth/sandbox/mcp": "",
		hub + "x": "", hub + "/../sandbox/mcp": "", hub + "/.x": "", hub + "/a//b": "", hub + "/a%2fb": "", hub + "/a;b": "", "https://host.example:444/mcp-oauth/hub": "", "x": "",
		"https://host.example": "",
	} {
		if _, got := c.Find(named); got != want {
			t.Errorf("%q: %q, not %q", named, got, want)
		}
	}
}

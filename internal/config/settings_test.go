package config_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/config"
)

const token = "0123456789abcdef0123456789abcdef"

func env(vars map[string]string) config.Lookup {
	return func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
}

// parse reads the settings that both servers have.
func parse(t *testing.T, args []string, vars map[string]string) (config.HTTP, error) {
	t.Helper()
	var h config.HTTP
	m, err := config.Table{Command: "sandboxd test", Settings: h.Settings("127.0.0.1:1", "/base")}.Parse(args, env(vars))
	if err != nil {
		return h, err
	}
	h.Check(m)
	return h, m.Err()
}

func TestSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := parse(t, nil, map[string]string{"MCP_AUTH_TOKEN_FILE": file, "MCP_ALLOWED_ORIGINS": ""})
	if err != nil {
		t.Fatal(err)
	}
	if h.Addr != "127.0.0.1:1" || h.BasePath != "/base" || h.Token != token || h.RequireEdge || h.InContainer || len(h.Origins) != 0 || strings.Join(h.Hosts, " ") != "localhost 127.0.0.1 ::1" {
		t.Errorf("defaults: %+v", h)
	}
	h, err = parse(t, []string{"-require-edge", "-base-path=/", "-addr", "[::1]:2", "-allowed-hosts=*"},
		map[string]string{"MCP_AUTH_TOKEN": token, "MCP_BASE_PATH": "/env", "MCP_IN_CONTAINER": "true", "MCP_ALLOWED_ORIGINS": "https://A.example, http://localhost:3000"})
	if err != nil {
		t.Fatal(err)
	}
	if h.Addr != "[::1]:2" || h.BasePath != "" || !h.RequireEdge || !h.InContainer || h.Hosts[0] != "*" || strings.Join(h.Origins, " ") != "https://a.example http://localhost:3000" {
		t.Errorf("flags win over variables: %+v", h)
	}
}

func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const secret = "secret-but-short"
	for _, c := range []struct {
		name string
		args []string
		vars map[string]string
		says []string
	}{
		{"no token", nil, map[string]string{}, []string{"MCP_AUTH_TOKEN_FILE is required"}},
		{"short token", nil, map[string]string{"MCP_AUTH_TOKEN": secret}, []string{"16 characters, at least 32"}},
		{"token with a blank", nil, map[string]string{"MCP_AUTH_TOKEN": secret + " " + secret + secret}, []string{"holds a blank"}},
		{"short file", nil, map[string]string{"MCP_AUTH_TOKEN_FILE": write("short", secret)}, []string{"16 characters"}},
		{"file with two newlines", nil, map[string]string{"MCP_AUTH_TOKEN_FILE": write("two", token+"\n\n")}, []string{"at most one newline"}},
		{"file with a return", nil, map[string]string{"MCP_AUTH_TOKEN_FILE": write("dos", token+"\r\n")}, []string{"at most one newline"}},
		{"no file", nil, map[string]string{"MCP_AUTH_TOKEN_FILE": dir + "/none"}, []string{"no such file"}},
		{"a directory", nil, map[string]string{"MCP_AUTH_TOKEN_FILE": dir}, []string{"not a regular file"}},
		{"both forms", nil, map[string]string{"MCP_AUTH_TOKEN": token, "MCP_AUTH_TOKEN_FILE": write("good", token)}, []string{"only one of them"}},
		{"a token flag", []string{"-auth-token=" + token}, map[string]string{"MCP_AUTH_TOKEN": token}, []string{"not defined: -auth-token"}},
		{"everything at once", []string{"-addr=nonsense", "rest"}, map[string]string{
			"MCP_AUTH_TOKEN": secret, "MCP_BASE_PATH": "/a/../b/", "MCP_REQUIRE_EDGE": "yes", "MCP_ALLOWED_HOSTS": "a:1", "MCP_ALLOWED_ORIGINS": "https://a/", "MCP_IN_CONTAINER": ""},
			[]string{"8 mistakes", `unexpected argument "rest"`, "-addr", "MCP_AUTH_TOKEN:", "MCP_BASE_PATH", "MCP_REQUIRE_EDGE", "MCP_ALLOWED_HOSTS", "MCP_ALLOWED_ORIGINS", "MCP_IN_CONTAINER is set but empty"}},
		{"open address", nil, map[string]string{"MCP_AUTH_TOKEN": token, "MCP_ADDR": "0.0.0.0:80"}, []string{"not a loopback address"}},
		{"every address", nil, map[string]string{"MCP_AUTH_TOKEN": token, "MCP_ADDR": ":80"}, []string{"not a loopback address"}},
		{"any origin", nil, map[string]string{"MCP_AUTH_TOKEN": token, "MCP_ALLOWED_ORIGINS": "*"}, []string{"MCP_ALLOWED_ORIGINS"}},
		{"empty part", nil, map[string]string{"MCP_AUTH_TOKEN": token, "MCP_ALLOWED_HOSTS": "a,,b"}, []string{"without empty or repeated parts"}},
	} {
		_, err := parse(t, c.args, c.vars)
		if err == nil {
			t.Errorf("%s: accepted", c.name)
			continue
		}
		for _, text := range c.says {
			if c.name != "everything at once" && strings.Contains(err.Error(), "mistakes") || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: the error lacks %q: %v", c.name, text, err)
			}
		}
		if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), token) {
			t.Errorf("%s: the error repeats a token: %v", c.name, err)
		}
	}
}

// The help names each setting with variable, flag and default, and no flag for
// the secret.
func TestUsage(t *testing.T) {
	var h config.HTTP
	table := config.Table{Command: "sandboxd test", Settings: h.Settings("127.0.0.1:1", "/base")}
	if _, err := table.Parse([]string{"-h"}, env(nil)); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v", err)
	}
	var b strings.Builder
	table.Usage(&b)
	for _, s := range table.Settings {
		if !strings.Contains(b.String(), s.Env) || s.Secret == strings.Contains(b.String(), "-"+s.Flag()+" ") {
			t.Errorf("%s: not as it should be in\n%s", s.Env, b.String())
		}
	}
	if !strings.Contains(b.String(), "[127.0.0.1:1]") {
		t.Errorf("no default in\n%s", b.String())
	}
}

func TestUnknownVariables(t *testing.T) {
	var h config.HTTP
	table := config.Table{Settings: h.Settings("127.0.0.1:1", "/base")}
	got := table.Unknown([]string{"MCP_ADDR=x", "MCP_REQUIRE_EGDE=true", "PATH=/bin", "XMCP_ADDR=x", "MCP_"})
	if strings.Join(got, " ") != "MCP_REQUIRE_EGDE MCP_" {
		t.Errorf("unknown: %q", got)
	}
}

func TestOutside(t *testing.T) {
	dir := t.TempDir()
	workspace, other := filepath.Join(dir, "work"), filepath.Join(dir, "workers")
	for _, d := range []string{workspace, other} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(workspace, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(workspace, "real"), filepath.Join(other, "token")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(workspace, "real"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, filepath.Join(workspace, "out")); err != nil {
		t.Fatal(err)
	}
	granted := func(path string) (string, bool) {
		return workspace, path == workspace || strings.HasPrefix(path, workspace+"/")
	}
	for path, refused := range map[string]bool{
		filepath.Join(workspace, "token"):      true, // not there yet
		filepath.Join(workspace, "real"):       true,
		filepath.Join(dir, "link", "real"):     true,
		filepath.Join(other, "token"):          true, // a link into it
		filepath.Join(workspace, "..", "work"): true,
		filepath.Join(workspace, "out"):        true, // a command could turn the link
		filepath.Join(workspace, "out/audit"):  true,
		filepath.Join(dir, "link", "out/x"):    true,
		filepath.Join(other, "audit"):          false,
		filepath.Join(dir, "audit"):            false,
		filepath.Join(dir, "none", "audit"):    true, // nobody can say where that is
	} {
		err := config.Outside("MCP_X", path, granted)
		if (err != nil) != refused {
			t.Errorf("%s: %v", path, err)
		}
		if err != nil && (!strings.Contains(err.Error(), path) || !strings.Contains(path, "none") && !strings.Contains(err.Error(), `"`+workspace+`"`)) {
			t.Errorf("%s: the error does not name both paths: %v", path, err)
		}
	}
}

// A folder that a command closed to its own account is opened again, so that the file in it can be
// looked at; the twin, a file, keeps its mode.
func TestOutsideOpensTheFolder(t *testing.T) {
	dir := t.TempDir()
	folder, file := filepath.Join(dir, "keys"), filepath.Join(dir, "keys", "token")
	if err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(file, nil, 0o200), os.Chmod(folder, 0)); err != nil {
		t.Fatal(err)
	}
	err := config.Outside("MCP_X", file, func(string) (string, bool) { return "", false })
	inside, _ := os.Stat(folder)
	if info, _ := os.Stat(file); err != nil || inside.Mode().Perm() != 0o700 || info.Mode().Perm() != 0o200 {
		t.Errorf("%v, %v, %v", err, inside.Mode(), info.Mode())
	}
}

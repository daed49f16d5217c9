package sandbox

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/e2e/tools"
)

// serve is docker run's arguments for sandboxd in the locked container.
func serve(t *testing.T, more ...string) []string {
	t.Helper()
	dir := rig.PublicDir(t)
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte(strings.Repeat("t", 43)+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	args := locked("-v", rig.Binary(t, "sandboxd")+":/sandboxd:ro", "-v", token+":/run/token:ro",
		"-e", "MCP_IN_CONTAINER=true", "-e", "MCP_ADDR=:8000", "-e", "MCP_ALLOWED_HOSTS=*", "-e", "MCP_WORKSPACE=/workspace", "-e", "MCP_AUTH_TOKEN_FILE=/run/token")
	return append(append(args, more...), tools.DebianImage, "/sandboxd", "serve")
}

// Without one of its pieces the jail does not start, and says which and what to
// do. It never runs a command with less.
func TestRefusesToStartWithoutAPiece(t *testing.T) {
	d := rig.NeedImages(t)
	dir := rig.PublicDir(t)
	socket := filepath.Join(dir, "docker.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	profile := func(calls string) string {
		path := filepath.Join(dir, strings.ReplaceAll(calls, `"`, "")+".json")
		raw := `{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":[` + calls + `],"action":"SCMP_ACT_ERRNO","errnoRet":1}]}`
		if err := os.WriteFile(path, []byte(raw), 0o644); err != nil {
			t.Fatal(err)
		}
		return "seccomp=" + path
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no Landlock":    {[]string{"--security-opt", profile(`"landlock_create_ruleset"`)}, "Landlock"},
		"no restriction": {[]string{"--security-opt", profile(`"landlock_restrict_self"`)}, "landlock_restrict_self"},
		"no seccomp":     {[]string{"--security-opt", profile(`"seccomp"`)}, "seccomp"},
		"a socket":       {[]string{"-v", socket + ":/run/docker.sock"}, "/run/docker.sock"},
		"its directory":  {[]string{"-v", dir + ":/host"}, "/host/docker.sock"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := d.Try(append([]string{"run", "--rm", "--network", "none"}, serve(t, c.args...)...)...)
			if err == nil || !strings.Contains(err.Error(), "exit status 3") {
				t.Errorf("%v, want exit status 3", err)
			}
			for _, want := range []string{"the jail cannot be built", c.want, "MCP_JAIL=group"} {
				if !strings.Contains(out, want) {
					t.Errorf("%q is not in:\n%s", want, out)
				}
			}
		})
	}
}

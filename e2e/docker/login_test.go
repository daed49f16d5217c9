package docker_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// make up LOGIN=https://HOST brings up OAuth with no file edited and keeps it; LOGIN=off
// removes it, and its routes with it.
func TestMakeUpLogin(t *testing.T) {
	d := rig.NeedImages(t)
	c := rig.NewCheckout(t, 1000)
	https := c.Stack(d)
	vendor := exec.Command("go", "mod", "vendor") // a build here may have no way to the Go proxy
	vendor.Dir = filepath.Join(c.Dir, "login")
	if out, err := vendor.CombinedOutput(); err != nil {
		t.Fatalf("go mod vendor: %v\n%s", err, out)
	}
	const host = "https://node.example"
	if out, err := c.Command("make", "env", "LOGIN=http://node.example/").CombinedOutput(); err == nil || !strings.Contains(string(out), "write https://HOST") {
		t.Errorf("a bad LOGIN: %v\n%s", err, out)
	}
	said := c.Make("up", "LOGIN="+host)
	if !strings.Contains(said, host+"/mcp-oauth/sandbox/mcp") {
		t.Errorf("make up does not say what to type into the client:\n%s", said)
	}
	login(t, https, 200, `"issuer":"`+host+`/mcp-login"`)
	lockedLogin(t, d)
	logs, _ := c.Command("docker", "compose", "logs", "login").CombinedOutput()
	if !strings.Contains(string(logs), "one-time code") {
		t.Errorf("no code in the log:\n%s", logs)
	}
	c.Make("up") // it stays
	login(t, https, 200, host)
	if out, err := c.Command("make", "env", "LOGIN=https://other.example").CombinedOutput(); err == nil || !strings.Contains(string(out), "another issuer") {
		t.Errorf("another host than login.json's: %v\n%s", err, out)
	}
	c.Make("up", "LOGIN=off")
	login(t, https, 404, "")
	if env := c.Read(".env"); strings.Contains(env, "SALLYPORT_LOGIN") || strings.Contains(env, "login") {
		t.Errorf(".env still has it:\n%s", env)
	}
	if out := d.Run("ps", "--format", "{{.Names}}"); strings.Contains(out, d.Name+"-login") {
		t.Errorf("login still runs: %s", out)
	}
}

func login(t *testing.T, https string, status int, holds string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	for _, at := range []string{"/mcp-login/.well-known/openid-configuration", "/.well-known/oauth-authorization-server/mcp-login", "/.well-known/oauth-protected-resource/mcp-oauth/sandbox/mcp"} {
		resp, err := client.Get("https://" + https + at)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != status || !strings.Contains(string(body), holds) && !strings.Contains(at, "protected") {
			t.Errorf("%s: %d %s", at, resp.StatusCode, body)
		}
	}
}

// lockedLogin checks what the container may: its own folders, one port on loopback, no
// shell, no root.
func lockedLogin(t *testing.T, d *rig.Docker) {
	t.Helper()
	name := d.Name + "-login-1"
	for format, want := range map[string]string{
		"{{.Config.User}}": "1000:1000", "{{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}}": "true [ALL]",
		"{{.State.Health.Status}}": "healthy", `{{range $p, $b := .HostConfig.PortBindings}}{{$p}} {{(index $b 0).HostIP}}:{{(index $b 0).HostPort}}{{end}}`: "8000/tcp 127.0.0.1:18083",
	} {
		if got := strings.TrimSpace(d.Run("inspect", "-f", format, name)); got != want {
			t.Errorf("%s: %q, not %q", format, got, want)
		}
	}
	mounts := strings.Fields(d.Run("inspect", "-f", "{{range .Mounts}}{{.Destination}}={{.RW}} {{end}}", name))
	slices.Sort(mounts)
	if want := []string{"/audit=true", "/config/login.json=false", "/revoked=true", "/state=true"}; !slices.Equal(mounts, want) {
		t.Errorf("mounts %q, not %q", mounts, want)
	}
	if out, err := d.Try("exec", name, "/bin/sh", "-c", "true"); err == nil {
		t.Errorf("there is a shell: %s", out)
	}
}

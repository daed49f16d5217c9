package doctor_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tailscale.com/ipn"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// The committed serve configuration, read by Tailscale's own type, points at
// Traefik and at nothing else.
func TestServeConfig(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(rig.Root(t), "deploy/tailscale-serve.json"))
	if err != nil {
		t.Fatal(err)
	}
	const name = "node.tailnet.ts.net" // the container puts it in place of ${TS_CERT_DOMAIN}
	raw = bytes.ReplaceAll(raw, []byte("${TS_CERT_DOMAIN}"), []byte(name))
	var config ipn.ServeConfig
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&config); err != nil {
		t.Fatal(err)
	}
	port := ipn.HostPort(name + ":443")
	if !config.IsFunnelOn() || !config.AllowFunnel[port] || len(config.AllowFunnel) != 1 {
		t.Errorf("Funnel is not on for %s alone: %v", port, config.AllowFunnel)
	}
	if ports := slices.Collect(maps.Keys(config.TCP)); !slices.Equal(ports, []uint16{443}) || !config.TCP[443].HTTPS || config.TCP[443].TCPForward != "" {
		t.Errorf("TCP: %v", config.TCP)
	}
	if len(config.Foreground)+len(config.Services) != 0 || len(config.Web) != 1 || len(config.Web[port].Handlers) != 1 {
		t.Errorf("something besides one handler: %s", raw)
	}
	handler := config.Web[port].Handlers["/"]
	if handler == nil || handler.Path != "" || handler.Text != "" {
		t.Fatalf("the handler at / is %+v", handler)
	}
	to, err := url.Parse(handler.Proxy)
	if err != nil || to.Scheme != "https+insecure" || to.Path != "" {
		t.Errorf("proxy: %q", handler.Proxy)
	}
	compose, err := os.ReadFile(filepath.Join(rig.Root(t), "docker-compose.yml"))
	if err != nil || !strings.Contains(string(compose), "${SALLYPORT_HTTPS:-"+to.Host+"}") {
		t.Errorf("%s is not where docker-compose.yml has Traefik listen (%v)", to.Host, err)
	}
}

// tailscale is a stand-in for the command: what doctor reads is what "tailscale
// serve status --json" prints, and that is Tailscale's own type.
func tailscale(t *testing.T, path, proxy string) (dir string) {
	t.Helper()
	const port = ipn.HostPort("node.tailnet.ts.net:443")
	raw, err := json.Marshal(ipn.ServeConfig{
		TCP:         map[uint16]*ipn.TCPPortHandler{443: {HTTPS: true}},
		Web:         map[ipn.HostPort]*ipn.WebServerConfig{port: {Handlers: map[string]*ipn.HTTPHandler{path: {Proxy: proxy}}}},
		AllowFunnel: map[ipn.HostPort]bool{port: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	script := "#!/bin/sh\n[ \"$*\" = 'serve status --json' ] && cat <<'EOF'\n" + string(raw) + "\nEOF\n"
	if err := os.WriteFile(filepath.Join(dir, "tailscale"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestFunnel(t *testing.T) {
	c := start(t, rig.ChainOptions{})
	for name, f := range map[string]struct{ path, proxy, want string }{
		"as documented": {"/", "https+insecure://127.0.0.1:8443", ""},
		"past Traefik":  {"/", "http://" + c.Sandbox.Addr, "funnel-past-traefik"},
		"at a path":     {"/mcp-sandbox", "https+insecure://127.0.0.1:8443", "funnel-set-path"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", tailscale(t, f.path, f.proxy)+":"+os.Getenv("PATH"))
			r := c.doctor(t)
			if f.want != "" {
				expect(t, r, f.want)
			} else if slices.ContainsFunc(r.bad(), func(s string) bool { return strings.HasPrefix(s, "funnel") }) {
				t.Errorf("a false alarm: %q", r.bad())
			}
		})
	}
}

// The units are such that systemd understands them, and make install puts them in place.
func TestInstall(t *testing.T) {
	c := rig.NewCheckout(t, 0)
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPROXY", "GONOSUMDB", "GOSUMDB"} {
		value, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		c.Env = append(c.Env, name+"="+strings.TrimSpace(string(value)))
	}
	said := c.Make("install", "DESTDIR="+c.Dir+"/stage", "PREFIX=/opt/sallyport")
	if _, err := os.Stat("/etc/sallyport/owner-key"); err != nil && !strings.Contains(said, `"/opt/sallyport/bin/sallyport" token key /etc/sallyport/owner-key`) {
		t.Errorf("make install does not name the key that the unit needs: %s", said)
	}
	for unit, binary := range map[string]string{"sallyport.service": "sandboxd", "sallyport-egress.service": "sallyport-egress", "sallyport-login.service": "sallyport-login"} {
		installed(t, c, unit, binary)
	}
}

func installed(t *testing.T, c *rig.Checkout, name, binary string) {
	t.Helper()
	version, err := c.Command(c.Dir+"/stage/opt/sallyport/bin/"+binary, "version").Output()
	if err != nil || !strings.HasPrefix(string(version), binary+" ") {
		t.Errorf("the installed binary: %q, %v", version, err)
	}
	unit := c.Dir + "/stage/opt/sallyport/lib/systemd/system/" + name
	raw, err := os.ReadFile(unit)
	if err != nil || !strings.Contains(string(raw), "ExecStart=/opt/sallyport/bin/"+binary+"\n") || strings.Contains(string(raw), "@PREFIX@") {
		t.Fatalf("the installed unit: %v\n%s", err, raw)
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not here: the unit's syntax was not checked")
		return
	}
	staged := bytes.ReplaceAll(raw, []byte("/opt/sallyport"), []byte(c.Dir+"/stage/opt/sallyport"))
	if err := os.WriteFile(unit, staged, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput(); err != nil || strings.Contains(string(out), name+":") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

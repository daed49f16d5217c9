package docker_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/e2e/tools"
)

// make up EGRESS=… gives commands of the committed stack the way to the hosts that it
// names, under the seccomp profile that ships, with no file edited. EGRESS=off ends it.
func TestMakeUpEgress(t *testing.T) {
	d := rig.NeedImages(t)
	c := rig.NewCheckout(t, 0)
	https := c.Stack(d)
	c.Env = append(c.Env, "GOCACHE="+rig.GoCache(t))
	if out, err := c.Command("make", "env", "EGRESS=10.0.0.1").CombinedOutput(); err == nil || !strings.Contains(string(out), "10.0.0.1") {
		t.Errorf("an address as a rule: %v\n%s", err, out)
	}
	said := c.Make("up", "EGRESS=private:gitea.home:3000,allowed.example")
	if !strings.Contains(said, "Commands may reach: private:gitea.home:3000,allowed.example") {
		t.Errorf("make up does not say what is allowed:\n%s", said)
	}
	lockedEgress(t, d)
	homeHost(t, d)
	session := rig.Connect(t, "https://"+https+"/mcp-sandbox", c.Read(".sallyport/edge/client-token"), rig.Streamable)
	run := func(line string) string {
		got := rig.Call(t, session, "run_command", rig.Args{"command": "exec 2>&1; " + line + "; echo \"code $?\"", "timeout_seconds": 60})
		return fmt.Sprint(got["stdout"], got["notices"])
	}
	const hello = "openssl s_client -brief -proxy 127.0.0.1:3128 -connect gitea.home:3000 -servername "
	if said := run(hello + "gitea.home </dev/null"); !strings.Contains(said, "CONNECTION ESTABLISHED") {
		t.Errorf("an allowed host: %s", said)
	}
	for line, why := range map[string]string{
		"git ls-remote https://evil.example/x":             `"evil.example" to EGRESS_ALLOW`,
		"git ls-remote https://allowed.example/x":          "allowed.example is allowed, but",
		hello + "evil.example </dev/null":                  "gitea.home",
		"git ls-remote ssh://git@allowed.example/x":        "",
		"bash -c '>/dev/tcp/127.0.0.1/8000'":               "",
		"bash -c '>/dev/tcp/172.17.0.1/22'":                "unreachable",
		"cat /run/secrets/egress-key":                      "ermission denied",
		"unshare --user --net true":                        "",
		"openssl s_client -connect gitea.home:3000 -brief": "",
	} {
		if said := run(line); strings.Contains(said, "code 0") || strings.Contains(said, "ESTABLISHED") || !strings.Contains(said, why) {
			t.Errorf("%s: want %q: %s", line, why, said)
		}
	}
	records, err := c.Command(rig.Binary(t, "sallyport"), "audit", "verify", ".sallyport/audit/egress/audit.jsonl").CombinedOutput()
	if err != nil || !strings.Contains(c.Read(".sallyport/audit/egress/audit.jsonl"), `"token:client"`) {
		t.Errorf("egress's records: %v\n%s", err, records)
	}
	c.Make("up", "EGRESS=off")
	if env := c.Read(".env"); strings.Contains(env, "egress") || strings.Contains(env, "EGRESS_ALLOW=private") {
		t.Errorf(".env still has it:\n%s", env)
	}
	if got := targets(inspect(t, d, "sandboxd")); slices.Contains(got, "/run/egress rw") {
		t.Errorf("sandboxd's mounts afterwards: %q", got)
	}
}

// lockedEgress looks at what each of the two containers holds (design: egress has its
// own ceiling and key, no workspace and no other token; sandboxd has its socket).
func lockedEgress(t *testing.T, d *rig.Docker) {
	t.Helper()
	egress, sandbox := inspect(t, d, "egress"), inspect(t, d, "sandboxd")
	h := egress.HostConfig
	if egress.Config.User != "64321:64321" || !h.ReadonlyRootfs || !slices.Equal(h.CapDrop, []string{"ALL"}) || len(h.CapAdd) > 0 || h.Privileged ||
		!slices.Contains(h.SecurityOpt, "no-new-privileges:true") || h.Memory == 0 || h.PidsLimit == 0 || len(h.PortBindings) > 0 {
		t.Errorf("egress is not locked down: %+v %+v", egress.Config, h)
	}
	if got, want := targets(egress), []string{"/audit rw", "/run/egress rw", "/run/secrets/egress-key ro"}; !slices.Equal(got, want) {
		t.Errorf("egress's mounts: %q, want %q", got, want)
	}
	if got, want := targets(sandbox), []string{"/audit rw", "/etc/passwd ro", "/run/egress rw", "/run/owner rw", "/run/secrets/egress-key ro",
		"/run/secrets/owner-key ro", "/run/secrets/sandbox-token ro", "/workspace rw"}; !slices.Equal(got, want) {
		t.Errorf("sandboxd's mounts: %q, want %q", got, want)
	}
	if !slices.ContainsFunc(sandbox.HostConfig.SecurityOpt, func(o string) bool { return strings.HasPrefix(o, "seccomp=") || strings.HasPrefix(o, "seccomp:") }) ||
		!slices.Contains(sandbox.HostConfig.SecurityOpt, "no-new-privileges:true") {
		t.Errorf("sandboxd's security options: %.300q", sandbox.HostConfig.SecurityOpt)
	}
	rig.Until(t, "egress's health", func() bool {
		return d.Run("inspect", "-f", "{{.State.Health.Status}}", d.Name+"-egress-1") == "healthy"
	})
}

// homeHost starts gitea.home, which answers TLS on 3000, in a network that egress
// is joined to: the stand-in of a home network.
func homeHost(t *testing.T, d *rig.Docker) {
	t.Helper()
	dir := rig.PublicDir(t)
	make := exec.Command("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
		"-subj", "/CN=gitea.home", "-keyout", filepath.Join(dir, "key.pem"), "-out", filepath.Join(dir, "cert.pem"))
	if out, err := make.CombinedOutput(); err != nil {
		t.Fatalf("openssl: %v %s", err, out)
	}
	network := d.Network(d.Name + "-home")
	id := d.Container("--network", network, "--network-alias", "gitea.home", "--volume", dir+":/tls:ro", tools.GoImage,
		"openssl", "s_server", "-accept", "3000", "-cert", "/tls/cert.pem", "-key", "/tls/key.pem", "-www")
	rig.Until(t, "the home host listens", func() bool {
		_, err := d.Try("exec", id, "bash", "-c", ">/dev/tcp/127.0.0.1/3000")
		return err == nil
	})
	d.Run("network", "connect", network, d.Name+"-egress-1")
	t.Cleanup(func() { d.Try("network", "disconnect", "--force", network, d.Name+"-egress-1") })
}

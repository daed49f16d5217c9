package rig_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/e2e/tools"
)

// The rig's own claim: Traefik serves the configuration that it was given, and
// the next one once SetDynamic returns, with either proxy.
func TestTraefikServesItsConfiguration(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.URL.Path)
	}))
	t.Cleanup(backend.Close)
	for _, fast := range []bool{false, true} {
		t.Run(fmt.Sprintf("fastProxy=%t", fast), func(t *testing.T) {
			tr := rig.StartTraefik(t, rig.TraefikOptions{FastProxy: fast, NoPlugin: true, Dynamic: route("/one", backend.URL)})
			if got := get(t, tr.Web+"/one"); got != "200 /one" {
				t.Errorf("/one: %s", got)
			}
			tr.SetDynamic(t, route("/two", backend.URL))
			if got := get(t, tr.WebSecure+"/two"); got != "200 /two" {
				t.Errorf("/two: %s", got)
			}
			if got := rig.Status(tr.Web + "/one"); got != 404 {
				t.Errorf("/one after it was taken away: %d", got)
			}
		})
	}
}

// A killed run leaves a stack behind that starts again with the engine. The next
// one that needs the fixed ports removes it, and nobody else's.
func TestStackLeftoversAreSwept(t *testing.T) {
	d := rig.NeedImages(t)
	label := func(project string) string { return "--label=com.docker.compose.project=" + project }
	theirs := d.Run("create", label("someone"), tools.DebianImage, "true")
	t.Cleanup(func() { d.Try("rm", "-f", theirs) })
	network := d.Network(label(d.Name), d.Name)
	left := d.Run("create", label(d.Name), "--network="+network, tools.DebianImage, "true")
	t.Cleanup(func() { d.Try("rm", "-f", left) })
	t.Run("sweep", func(t *testing.T) { rig.Lock(t, "stack") })
	if out, err := d.Try("inspect", left); err == nil {
		t.Errorf("the leftover is still there: %s", out)
	}
	if out, err := d.Try("network", "inspect", network); err == nil {
		t.Errorf("the leftover's network is still there: %s", out)
	}
	if out, err := d.Try("inspect", theirs); err != nil {
		t.Errorf("another project's container is gone: %s", out)
	}
}

func route(path, url string) string {
	return fmt.Sprintf(`http:
  routers:
    clear: {rule: "Path(%[1]s)", entryPoints: [web], service: s}
    tls: {rule: "Path(%[1]s)", entryPoints: [websecure], service: s, tls: {}}
  services: {s: {loadBalancer: {servers: [{url: %[2]s}]}}}
`, "`"+path+"`", url)
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := rig.HTTPClient("").Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, body)
}

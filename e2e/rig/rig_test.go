package rig_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
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

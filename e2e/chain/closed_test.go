package chain_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// A gate that breaks stays shut: with a catch-all router present, whose rule is
// longer than any of ours, a request that should have met the plugin gets 503
// and the catch-all sees nothing.
func TestBrokenGateIsShut(t *testing.T) {
	var seen atomic.Int64
	catchAll := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen.Add(1) }))
	t.Cleanup(catchAll.Close)
	withCatchAll := func(yaml string) string {
		router := `  routers:
    catch-all:
      rule: "HostRegexp(` + "`^.+$`" + `) && (PathPrefix(` + "`/`" + `) || PathPrefix(` + "`/a-long-rule-has-a-high-priority-by-default`" + `))"
      entryPoints: [websecure]
      service: catch-all
      tls: {}
`
		service := "  services:\n    catch-all: {loadBalancer: {servers: [{url: \"" + catchAll.URL + "\"}]}}\n"
		yaml = strings.Replace(yaml, "  routers:\n", router, 1)
		return strings.Replace(yaml, "  services:\n", service, 1)
	}

	for name, c := range map[string]struct {
		edit   func(string) string
		plugin string // folder of the plugin, "" for ours
		status int
	}{
		"whole":                  {func(y string) string { return y }, "", 401},
		"a setting is misspelt":  {func(y string) string { return strings.ReplaceAll(y, "tools: [", "tolls: [") }, "", 503},
		"a setting has no value": {func(y string) string { return strings.ReplaceAll(y, "pathPrefix: /mcp-", "pathPrefix: \"\" # /mcp-") }, "", 503},
		"a token file is missing": {func(y string) string {
			return strings.ReplaceAll(y, "backendTokenFile: /", "backendTokenFile: /missing/")
		}, "", 503},
		"the plugin does not load": {func(y string) string { return y }, broken(t), 503},
	} {
		t.Run(name, func(t *testing.T) {
			seen.Store(0)
			_, client := rig.NewToken(t)
			yaml := strings.ReplaceAll((rig.Files{}).Dynamic(t), "/client-token", client)
			tr := rig.StartTraefik(t, rig.TraefikOptions{Dynamic: withCatchAll(c.edit(yaml)), Plugin: c.plugin})
			for _, path := range []string{"/mcp-sandbox/sse", "/mcp-sandbox/mcp", "/mcp-sandbox", "/mcp-hub/hub/mcp"} {
				if got := do(t, request{method: "GET", url: tr.WebSecure + path}); got.status != c.status {
					t.Errorf("%s: %s, want %d", path, got, c.status)
				}
			}
			well := do(t, request{method: "GET", url: tr.WebSecure + "/.well-known/oauth-protected-resource"})
			if want := map[int]int{401: 404, 503: 503}[c.status]; well.status != want {
				t.Errorf("well-known: %s, want %d", well, want)
			}
			if n := seen.Load(); n != 0 {
				t.Errorf("the catch-all saw %d requests", n)
			}
			if got := do(t, request{method: "GET", url: tr.WebSecure + "/elsewhere"}); got.status != 200 || seen.Load() != 1 {
				t.Errorf("the catch-all is not there: %s", got)
			}
		})
	}
}

// broken is a copy of the plugin that does not compile.
func broken(t *testing.T) string {
	t.Helper()
	dir, root := t.TempDir(), rig.Root(t)
	for _, name := range []string{".traefik.yml", "go.mod"} {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(dir, "plugin"), os.DirFS(filepath.Join(root, "plugin"))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "plugin", "broken.go"), []byte("package plugin\n\nvar x = undefined\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func abs(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

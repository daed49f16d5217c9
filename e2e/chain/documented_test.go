package chain_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// What the files offer beside what `make up` uses works too: the variant with a
// certificate from tailscaled, and the page for a Traefik that runs already.
func TestDocumentedVariants(t *testing.T) {
	for name, source := range map[string]func(t *testing.T, files rig.Files) string{
		"traefik-dynamic.yml with its comments": func(t *testing.T, files rig.Files) string {
			yaml := files.Dynamic(t)
			if !strings.Contains(yaml, "# tls: {certResolver: tailscale}") || !strings.Contains(yaml, "# rule: \"Host(`your-node.your-tailnet.ts.net`) && ") {
				t.Fatal("the variant is gone from traefik-dynamic.yml")
			}
			yaml = strings.ReplaceAll(yaml, "tls: {}", "tls: {certResolver: tailscale}")
			return strings.ReplaceAll(yaml, "\"PathPrefix(`/mcp-sandbox`)\"", "\"Host(`your-node.your-tailnet.ts.net`) && PathPrefix(`/mcp-sandbox`)\"")
		},
		"docs/existing-traefik.md": func(t *testing.T, files rig.Files) string {
			page, err := os.ReadFile(filepath.Join(rig.Root(t), "docs", "existing-traefik.md"))
			if err != nil {
				t.Fatal(err)
			}
			yaml := regexp.MustCompile("(?s)```yaml\nhttp:\n.*?```").FindString(string(page))
			return files.Replace(strings.Trim(yaml, "`yaml"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			sandbox := rig.StartSandboxd(t, rig.SandboxdOptions{Env: []string{"MCP_REQUIRE_EDGE=true", documentedHosts(t)}})
			token, file := rig.NewToken(t)
			if err := os.Rename(file, filepath.Join(filepath.Dir(file), "client-token")); err != nil {
				t.Fatal(err)
			}
			files := rig.Files{EdgeDir: filepath.Dir(file), SandboxToken: sandbox.TokenFile, SandboxAddr: sandbox.Addr}
			tr := rig.StartTraefik(t, rig.TraefikOptions{
				Dynamic: source(t, files), Args: []string{"--certificatesresolvers.tailscale.tailscale=true"},
			})
			named := http.Header{"Host": {"your-node.your-tailnet.ts.net"}}
			url := tr.WebSecure + "/mcp-sandbox/mcp"
			if got := do(t, with(post(url, token, initialize), named)); got.status != 200 || !strings.Contains(got.body, "protocolVersion") {
				t.Errorf("with the token: %s", got)
			}
			if got := do(t, with(post(url, "", initialize), named)); got.status != 401 {
				t.Errorf("without: %s", got)
			}
			if got := do(t, post(url, token, initialize)); got.status != 404 {
				t.Errorf("under another name: %s", got)
			}
		})
	}
}

// documentedHosts is the setting of a sandbox without Docker by which it accepts
// the public name that Traefik passes on, as its page has it.
func documentedHosts(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(rig.Root(t), "docs", "systemd.md"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^Environment=(MCP_ALLOWED_HOSTS=.*)$`).FindSubmatch(page)
	if m == nil {
		t.Fatal("docs/systemd.md does not say which Host is accepted")
	}
	return string(m[1])
}

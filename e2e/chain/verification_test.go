package chain_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// The list that the owner of such a set-up verifies, boundary by boundary.
func TestVerificationList(t *testing.T) {
	withBothProxies(t, func(t *testing.T, fast bool) {
		c := rig.StartChain(t, rig.ChainOptions{FastProxy: fast})

		t.Run("the backend is healthy, on its own address only", func(t *testing.T) {
			if got := do(t, request{method: "GET", url: c.Sandbox.URL + "/healthz"}); got.status != 200 || strings.TrimSpace(got.body) != "ok" {
				t.Errorf("backend: %s", got)
			}
			for _, url := range []string{c.WebSecure + "/healthz", c.Base + "/healthz"} {
				if got := do(t, request{method: "GET", url: url, token: c.Token}); got.status != 404 {
					t.Errorf("%s: %s", url, got)
				}
			}
		})

		t.Run("401 without a token", func(t *testing.T) {
			for _, r := range []request{
				{method: "GET", url: c.Base + "/sse", header: http.Header{"Accept": {"text/event-stream"}}},
				post(c.Base+"/sse?sessionid=abc", "", initialize),
				post(c.Base+"/mcp", "", initialize),
				{method: "GET", url: c.Base + "/mcp"},
				{method: "DELETE", url: c.Base + "/mcp"},
			} {
				got := do(t, r)
				if got.status != 401 || got.header.Get("WWW-Authenticate") == "" {
					t.Errorf("%s %s: %s, WWW-Authenticate %q", r.method, r.url, got, got.header.Get("WWW-Authenticate"))
				}
			}
		})

		t.Run("the endpoint keeps the prefix", func(t *testing.T) {
			got := do(t, request{method: "GET", url: c.Base + "/sse", token: c.Token, header: http.Header{"Accept": {"text/event-stream"}}})
			endpoint := regexp.MustCompile(`(?m)^data: ?/mcp-sandbox/sse\?sessionid=\S+\r?$`)
			if got.status != 200 || !strings.Contains(got.body, "event: endpoint") || !endpoint.MatchString(got.body) {
				t.Errorf("%s", got)
			}
		})

		for _, how := range []rig.Transport{rig.SSE, rig.Streamable} {
			t.Run("a client lists and calls the three tools over "+string(how), func(t *testing.T) {
				rig.UseThreeTools(t, rig.Connect(t, c.Base, c.Token, how))
			})
		}
	})
}

// The prefix comes back in the endpoint wherever it is taken away: by
// StripPrefix behind the plugin, or by the plugin for a backend that serves at
// the root.
func TestPrefixTakenAwayBehindThePlugin(t *testing.T) {
	for name, edit := range map[string]func(string) string{
		"backendPath": func(yaml string) string {
			return strings.Replace(yaml, "pathPrefix: /mcp-sandbox\n", "pathPrefix: /mcp-sandbox\n          backendPath: /\n", 1)
		},
		"StripPrefix": func(yaml string) string {
			yaml = strings.ReplaceAll(yaml, "middlewares: [mcp-sandbox-edge]", "middlewares: [mcp-sandbox-edge, mcp-sandbox-strip]")
			return strings.Replace(yaml, "  middlewares:\n", "  middlewares:\n    mcp-sandbox-strip:\n      stripPrefix: {prefixes: [/mcp-sandbox]}\n", 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			withBothProxies(t, func(t *testing.T, fast bool) {
				c := rig.StartChain(t, rig.ChainOptions{
					FastProxy: fast, Edit: edit,
					Sandboxd: rig.SandboxdOptions{Env: []string{"MCP_BASE_PATH=/"}},
				})
				got := do(t, request{method: "GET", url: c.Base + "/sse", token: c.Token, header: http.Header{"Accept": {"text/event-stream"}}})
				if !strings.Contains(got.body, "/mcp-sandbox/sse?sessionid=") {
					t.Errorf("endpoint: %s", got)
				}
				for _, how := range []rig.Transport{rig.SSE, rig.Streamable} {
					rig.UseThreeTools(t, rig.Connect(t, c.Base, c.Token, how))
				}
			})
		})
	}
}

// StripPrefix before the plugin takes away what the plugin checks: 404, and a
// log line that says what to do.
func TestStripPrefixBeforeThePlugin(t *testing.T) {
	c := rig.StartChain(t, rig.ChainOptions{Edit: func(yaml string) string {
		yaml = strings.ReplaceAll(yaml, "middlewares: [mcp-sandbox-edge]", "middlewares: [mcp-sandbox-strip, mcp-sandbox-edge]")
		return strings.Replace(yaml, "  middlewares:\n", "  middlewares:\n    mcp-sandbox-strip:\n      stripPrefix: {prefixes: [/mcp-sandbox]}\n", 1)
	}})
	if got := do(t, post(c.Base+"/mcp", c.Token, initialize)); got.status != 404 {
		t.Errorf("%s", got)
	}
	rig.Until(t, "the hint in Traefik's log", func() bool {
		return strings.Contains(c.Traefik.Log.String(), "put StripPrefix after this middleware")
	})
}

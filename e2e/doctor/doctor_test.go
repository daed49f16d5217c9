package doctor_test

import (
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// The good set-up, behind either proxy of Traefik, gives exactly one warning:
// the Traefik that tests build calls itself "dev".
func TestNoFalseAlarm(t *testing.T) {
	for name, fast := range map[string]bool{"httputil": false, "fastProxy": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, rig.ChainOptions{FastProxy: fast})
			r := c.doctor(t, "-traefik-api", c.API, "-idle", "20s")
			if got := r.bad(); !slices.Equal(got, []string{"traefik-unknown"}) || r.code != 0 {
				t.Errorf("exit code %d, findings %q:\n%s", r.code, got, r.text)
			}
			for _, want := range []string{"token", "backend", "loopback", "no token", "plugin", "oauth", "stream", "endpoint",
				"sse", "streamable", "write_file", "read_file", "run_command", "network", "routers", "idle"} {
				if !slices.ContainsFunc(r.Lines, func(l line) bool { return l.Boundary == want && l.Verdict == "ok" }) {
					t.Errorf("no ok line for %s", want)
				}
			}
			left, err := filepath.Glob(filepath.Join(c.Sandbox.Workspace, ".sallyport-doctor*"))
			if err != nil || len(left) > 0 {
				t.Errorf("doctor left %q in the workspace", left)
			}
		})
	}
}

// replace changes the committed dynamic configuration once, and again for each
// further pair.
func replace(t *testing.T, pairs ...string) func(string) string {
	return func(yaml string) string {
		for i := 0; i < len(pairs); i += 2 {
			if !strings.Contains(yaml, pairs[i]) {
				t.Fatalf("the dynamic configuration has no %q", pairs[i])
			}
			yaml = strings.Replace(yaml, pairs[i], pairs[i+1], 1)
		}
		return yaml
	}
}

const (
	guarded = "middlewares: [mcp-sandbox-edge]"
	defined = "\n  middlewares:\n"
)

// withMiddleware puts one of Traefik's own middlewares on the sandbox's router.
func withMiddleware(t *testing.T, order, definition string) func(string) string {
	return replace(t, guarded, "middlewares: ["+order+"]", defined, defined+"    broken: {"+definition+"}\n")
}

func TestBrokenTraefik(t *testing.T) {
	for name, c := range map[string]struct {
		want    string
		options rig.ChainOptions
		args    []string
	}{
		"StripPrefix before the plugin": {want: "prefix-stripped",
			options: rig.ChainOptions{Edit: withMiddleware(t, "broken, mcp-sandbox-edge", "stripPrefix: {prefixes: [/mcp-sandbox]}")}},
		"a mistake in the plugin's settings": {want: "router-dropped",
			options: rig.ChainOptions{Edit: replace(t, "pathPrefix: /mcp-sandbox", "pathPrefx: /mcp-sandbox")}},
		"a setting that contradicts another, seen in the API": {want: "traefik-router", args: []string{"-traefik-api", "API"},
			options: rig.ChainOptions{Edit: replace(t, "backend: hub", "backend: hubb")}},
		"no fallback router": {want: "not-routed",
			options: rig.ChainOptions{Edit: replace(t, "pathPrefix: /mcp-sandbox", "pathPrefx: /mcp-sandbox", "service: mcp-closed", "service: nowhere")}},
		"no middleware on the router": {want: "past-the-plugin",
			options: rig.ChainOptions{Edit: replace(t, guarded, "middlewares: []")}},
		"buffering": {want: "buffered", args: []string{"-wait", "4s"},
			options: rig.ChainOptions{Edit: withMiddleware(t, "broken, mcp-sandbox-edge", "buffering: {maxRequestBodyBytes: 1000000}")}},
		"an allow list": {want: "refused",
			options: rig.ChainOptions{Edit: withMiddleware(t, "broken, mcp-sandbox-edge", "ipAllowList: {sourceRange: [192.0.2.1/32]}")}},
		"another login before the plugin": {want: "no-challenge",
			options: rig.ChainOptions{Edit: withMiddleware(t, "broken, mcp-sandbox-edge", `basicAuth: {users: ["a:b"]}`)}},
		"a redirect": {want: "redirect",
			options: rig.ChainOptions{Edit: withMiddleware(t, "broken, mcp-sandbox-edge", `redirectRegex: {regex: "^https://[^/]*/(.*)", replacement: "https://elsewhere.example/${1}"}`)}},
		"the wrong service": {want: "backend-unreachable",
			options: rig.ChainOptions{Edit: func(yaml string) string {
				service := "mcp-sandbox:\n      loadBalancer:\n        servers:\n          - url: \"http://"
				at := strings.Index(yaml, service) + len(service)
				return yaml[:at] + "127.0.0.1:9\"" + yaml[at+strings.Index(yaml[at:], "\n"):]
			}}},
		"an expired token": {want: "token-refused",
			options: rig.ChainOptions{Edit: replace(t, "- name: client\n", "- name: client\n              expires: \"2020-01-01\"\n")}},
		"fewer grants": {want: "tool-not-granted",
			options: rig.ChainOptions{Edit: replace(t, `tools: ["run_command", "read_file", "write_file"]`, `tools: ["read_file"]`)}},
		"streams cut by a write timeout": {want: "idle-cut", args: []string{"-idle", "30s"},
			options: rig.ChainOptions{Args: []string{"--entrypoints.websecure.transport.respondingtimeouts.writetimeout=3s"}}},
		"commands with the container's network": {want: "network-open",
			options: rig.ChainOptions{Sandboxd: rig.SandboxdOptions{Env: []string{"MCP_COMMAND_NETWORK=container"}}}},
		"no jail": {want: "jail-off",
			options: rig.ChainOptions{Sandboxd: rig.SandboxdOptions{Env: []string{"MCP_JAIL=group"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			chain := start(t, c.options)
			args := slices.Clone(c.args)
			if i := slices.Index(args, "API"); i >= 0 {
				args[i] = chain.API
			}
			expect(t, chain.doctor(t, args...), c.want)
		})
	}
}

func expect(t *testing.T, r report, want string) {
	t.Helper()
	if !r.has(want) {
		t.Errorf("doctor does not say %s, but %q:\n%s", want, r.bad(), r.text)
	}
	failed := slices.ContainsFunc(r.Lines, func(l line) bool { return l.Verdict == "fail" })
	if failed != (r.code == 1) {
		t.Errorf("exit code %d:\n%s", r.code, r.text)
	}
}

// The plugin is not loaded at all: the fallback router answers.
func TestPluginNotLoaded(t *testing.T) {
	sandbox := rig.StartSandboxd(t, rig.SandboxdOptions{Env: []string{"MCP_REQUIRE_EDGE=true"}})
	files := rig.Files{EdgeDir: t.TempDir(), SandboxToken: sandbox.TokenFile, SandboxAddr: sandbox.Addr}
	tr := rig.StartTraefik(t, rig.TraefikOptions{Dynamic: files.Dynamic(t), NoPlugin: true})
	token, file := rig.NewToken(t)
	expect(t, doctor(t, token, "-backend", sandbox.URL, "-token-file", file, tr.WebSecure+"/mcp-sandbox/sse"), "router-dropped")
}

func TestBrokenWay(t *testing.T) {
	c := start(t, rig.ChainOptions{})
	origin := strings.TrimSuffix(c.Base, "/mcp-sandbox")
	for name, b := range map[string]struct {
		want string
		url  string
		args []string
	}{
		"Funnel at a path, which it strips": {want: "prefix-stripped", url: proxy(t, origin, func(p *httputil.ReverseProxy) {
			next := p.Rewrite
			p.Rewrite = func(r *httputil.ProxyRequest) {
				next(r)
				r.Out.URL.Path = strings.TrimPrefix(r.Out.URL.Path, "/mcp-sandbox")
			}
		})},
		"Funnel past Traefik": {want: "past-the-plugin", url: proxy(t, c.Sandbox.URL, nil)},
		"a clock that is wrong": {want: "clock-skew", url: proxy(t, origin, func(p *httputil.ReverseProxy) {
			p.ModifyResponse = func(r *http.Response) error {
				r.Header.Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
				return nil
			}
		})},
		"an identity provider at the root": {want: "oauth-metadata", url: proxy(t, origin, func(p *httputil.ReverseProxy) {
			p.ModifyResponse = func(r *http.Response) error {
				if strings.HasPrefix(r.Request.URL.Path, "/.well-known/oauth-authorization-server") {
					r.StatusCode = 200
				}
				return nil
			}
		})},
		"a proxy that buffers": {want: "buffered", args: []string{"-wait", "4s"}, url: proxy(t, origin, func(p *httputil.ReverseProxy) {
			p.FlushInterval = time.Hour
			p.ModifyResponse = func(r *http.Response) error { r.Header.Set("Content-Type", "text/event-stream"); return nil }
			p.Transport = holding{p.Transport}
		})},
		"a proxy that cuts quiet streams": {want: "idle-cut", args: []string{"-idle", "30s"}, url: proxy(t, origin, func(p *httputil.ReverseProxy) {
			p.Transport = cutting{p.Transport}
		})},
		"nothing there": {want: "unreachable", url: "https://" + rig.FreeAddr(t)},
		"another certificate": {want: "tls-untrusted", url: func() string {
			addr := outside(t)
			return "https://" + listenTLS(t, addr, origin)
		}()},
		"an endpoint on another origin": {want: "endpoint-origin", url: proxy(t, origin, func(p *httputil.ReverseProxy) {
			p.Transport = rewriting{p.Transport, "data: /mcp-sandbox/sse", "data: http://127.0.0.1:9/mcp-sandbox/sse"}
		})},
		"an endpoint without the prefix": {want: "endpoint-path", url: proxy(t, origin, func(p *httputil.ReverseProxy) {
			p.Transport = rewriting{p.Transport, "data: /mcp-sandbox/sse", "data: /sse"}
		})},
		"another server on that path": {want: "not-a-stream", url: proxy(t, origin, func(p *httputil.ReverseProxy) {
			p.ModifyResponse = func(r *http.Response) error {
				if r.StatusCode == 200 {
					r.Header.Set("Content-Type", "text/html")
				}
				return nil
			}
		})},
	} {
		t.Run(name, func(t *testing.T) { expect(t, c.at(t, b.url+"/mcp-sandbox/sse", b.args...), b.want) })
	}
}

func TestBrokenFiles(t *testing.T) {
	c := start(t, rig.ChainOptions{})
	_, other := rig.NewToken(t)
	expect(t, c.doctor(t, "-token-file", other), "token-refused")
	expect(t, c.doctor(t, "-token-file", filepath.Join(t.TempDir(), "none")), "token-missing")
	if err := os.Chmod(c.file, 0o644); err != nil {
		t.Fatal(err)
	}
	expect(t, c.doctor(t), "token-readable")
}

func TestBrokenBackend(t *testing.T) {
	c := start(t, rig.ChainOptions{})
	_, port, _ := strings.Cut(c.Sandbox.Addr, ":")
	forward(t, outside(t)+":"+port, c.Sandbox.Addr)
	expect(t, c.doctor(t), "backend-exposed")
	c.Sandbox.Stop()
	r := c.doctor(t)
	expect(t, r, "backend-down")
	expect(t, r, "backend-unreachable")
}

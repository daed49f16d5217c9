package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const secret = "doctor-test-0123456789abcdef0123456789"

// The stand-ins here have the edge's and the sandbox's outer behaviour and
// nothing else: the real ones are met in e2e/doctor.

// edge refuses as the plugin does, then calls next.
func edge(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.HasPrefix(r.URL.Path, "/mcp-sandbox/"):
			http.NotFound(w, r)
		case r.Method == "PUT":
			w.Header().Set("Allow", "GET, POST, DELETE")
			w.WriteHeader(405)
		case r.Header.Get("Authorization") != "Bearer "+secret:
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(401)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// sandbox is an MCP server with the three tools over a directory.
func sandbox(t *testing.T, only ...string) http.Handler {
	dir := t.TempDir()
	server := mcp.NewServer(&mcp.Implementation{Name: "sandbox", Version: "0"}, nil)
	type args struct {
		Path    string `json:"path,omitempty"`
		Content string `json:"content,omitempty"`
		Command string `json:"command,omitempty"`
	}
	add := func(name string, do func(args) (string, error)) {
		if len(only) > 0 && !slices.Contains(only, name) {
			return
		}
		mcp.AddTool(server, &mcp.Tool{Name: name}, func(_ context.Context, _ *mcp.CallToolRequest, in args) (*mcp.CallToolResult, any, error) {
			text, err := do(in)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, err
		})
	}
	add("write_file", func(a args) (string, error) {
		return "", os.WriteFile(filepath.Join(dir, a.Path), []byte(a.Content), 0o600)
	})
	add("read_file", func(a args) (string, error) {
		raw, err := os.ReadFile(filepath.Join(dir, a.Path))
		return string(raw), err
	})
	add("run_command", func(a args) (string, error) {
		if strings.Contains(a.Command, "/dev/tcp/") {
			return "", nil // the jail refuses it
		}
		if strings.Contains(a.Command, "HELD:") && !slices.Contains(only, "leaky") {
			return "", nil // here too
		}
		cmd := exec.Command("/bin/sh", "-c", a.Command)
		cmd.Dir, cmd.Env = dir, []string{"PATH=/usr/bin:/bin"}
		out, err := cmd.CombinedOutput()
		return string(out), err
	})
	get := func(*http.Request) *mcp.Server { return server }
	mux := http.NewServeMux()
	mux.Handle("/mcp-sandbox/sse", mcp.NewSSEHandler(get, nil))
	mux.Handle("/mcp-sandbox/mcp", mcp.NewStreamableHTTPHandler(get, nil))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	return mux
}

type result struct {
	code  int
	lines []Line
	text  string
}

func (r result) has(name string) bool {
	return slices.ContainsFunc(r.lines, func(l Line) bool { return l.Finding == name })
}

func tokenFile(t *testing.T, mode os.FileMode) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "client-token")
	if err := os.WriteFile(name, []byte(secret+"\n"), mode); err != nil {
		t.Fatal(err)
	}
	return name
}

// examine runs doctor against a chain whose backend is healthy.
func examine(t *testing.T, front http.Handler, args ...string) result {
	t.Helper()
	t.Setenv("PATH", t.TempDir()) // no docker, no tailscale of this machine
	back := httptest.NewServer(sandbox(t))
	defer back.Close()
	srv := httptest.NewServer(front)
	defer srv.CloseClientConnections()
	args = append([]string{"-json", "-backend", back.URL, "-token-file", tokenFile(t, 0o600)}, args...)
	return run(t, append(args, srv.URL+"/mcp-sandbox/sse"))
}

func run(t *testing.T, args []string) result {
	t.Helper()
	var out, errs bytes.Buffer
	r := result{code: Main(t.Context(), args, &out, &errs), text: out.String() + errs.String()}
	var report struct{ Lines []Line }
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("%v in %s", err, r.text)
	}
	if strings.Contains(r.text, secret[:16]) { // nor its beginning
		t.Errorf("the token was printed:\n%s", r.text)
	}
	r.lines = report.Lines
	return r
}

func TestGoodChain(t *testing.T) {
	r := examine(t, edge(sandbox(t)))
	for _, l := range r.lines {
		if l.Verdict != OK && l.Finding != "traefik-unknown" && l.Finding != "kernel-too-old" {
			t.Errorf("false alarm: %+v", l)
		}
	}
	for _, want := range []string{"token", "backend", "no token", "plugin", "clock", "oauth", "stream", "endpoint", "sse", "streamable", "write_file", "read_file", "run_command", "network", "workspace"} {
		if !slices.ContainsFunc(r.lines, func(l Line) bool { return l.Boundary == want && l.Verdict == OK }) {
			t.Errorf("no ok line for %q", want)
		}
	}
	if r.code != 0 {
		t.Errorf("exit code %d", r.code)
	}
}

// Without a URL, doctor finds what make run serves: edge and sandbox at one address.
func TestWithoutURL(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	back := sandbox(t)
	gates := edge(back)
	both := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			back.ServeHTTP(w, r)
			return
		}
		gates.ServeHTTP(w, r)
	}))
	r := run(t, []string{"-json", "-backend", both, "-token-file", tokenFile(t, 0o600)})
	for _, l := range r.lines {
		if l.Verdict != OK && l.Finding != "kernel-too-old" {
			t.Errorf("false alarm: %+v", l)
		}
	}
	if len(r.lines) < 15 {
		t.Errorf("only %d lines:\n%s", len(r.lines), r.text)
	}
}

func TestBrokenChains(t *testing.T) {
	good := edge(sandbox(t))
	for name, c := range map[string]struct {
		front http.Handler
		args  []string
	}{
		"open":                         {front: sandbox(t)},
		"no-challenge":                 {front: modify(good, func(r *http.Response) { r.Header.Del("WWW-Authenticate") })},
		"redirect":                     {front: http.RedirectHandler("https://elsewhere.example/", 308)},
		"not-routed":                   {front: http.NotFoundHandler()},
		"router-dropped":               {front: status(503)},
		"backend-unreachable":          {front: status(502)},
		"refused":                      {front: status(403)},
		"host-refused":                 {front: edge(status(http.StatusMisdirectedRequest))},
		"answer-stopped":               {front: edge(stopped())},
		"past-the-plugin":              {front: without("PUT", good)},
		"prefix-stripped":              {front: http.StripPrefix("/mcp-sandbox", good)},
		"oauth-metadata":               {front: wellKnown(good)},
		"token-refused":                {front: good, args: []string{"-token-file", other(t)}},
		"token-readable":               {front: good, args: []string{"-token-file", tokenFile(t, 0o644)}},
		"token-missing":                {front: good, args: []string{"-token-file", "/does/not/exist"}},
		"clock-skew":                   {front: modify(good, func(r *http.Response) { r.Header.Set("Date", "Mon, 02 Jan 2006 15:04:05 GMT") })},
		"not-a-stream":                 {front: edge(status(200))},
		"buffered":                     {front: edge(buffering(sandbox(t))), args: []string{"-wait", "5s"}},
		"endpoint-origin":              {front: edge(endpoint("https://evil.example/mcp-sandbox/sse?x"))},
		"endpoint-path":                {front: edge(endpoint("/messages?sessionid=1"))},
		"idle-cut":                     {front: cut(good), args: []string{"-idle", "20s"}},
		"workspace-holds-installation": {front: edge(sandbox(t, "read_file", "write_file", "run_command", "leaky"))},
		"tool-not-granted":             {front: edge(sandbox(t, "read_file"))},
		"backend-down":                 {front: good, args: []string{"-backend", "http://127.0.0.1:1"}},
		"backend-foreign":              {front: good, args: []string{"-backend", serve(t, status(404))}},
		"backend-loopback":             {front: good, args: []string{"-backend", serve(t, hangUp{})}},
		"traefik-old":                  {front: good, args: []string{"-traefik-api", serve(t, api("3.7.13", "enabled"))}},
		"traefik-unknown":              {front: good, args: []string{"-traefik-api", serve(t, api("dev", "enabled"))}},
		"traefik-router":               {front: good, args: []string{"-traefik-api", serve(t, api("3.7.18", "disabled"))}},
	} {
		t.Run(name, func(t *testing.T) {
			r := examine(t, c.front, c.args...)
			if !r.has(name) {
				t.Errorf("not named:\n%s", r.text)
			}
			failed := slices.ContainsFunc(r.lines, func(l Line) bool { return l.Verdict == Fail })
			if failed != (r.code == 1) || Findings[name].Verdict == Fail && !failed {
				t.Errorf("exit code %d:\n%s", r.code, r.text)
			}
		})
	}
}

// A token goes to the origin of the command line and to no other, whatever a
// server answers.
func TestTokenStaysAtItsOrigin(t *testing.T) {
	var stolen []string
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stolen = append(stolen, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
	}))
	defer thief.Close()
	for name, front := range map[string]http.Handler{
		"endpoint": edge(endpoint(thief.URL + "/mcp-sandbox/sse?x")),
		"redirect": edge(http.RedirectHandler(thief.URL, 307)),
		"mixed":    edge(mixed(sandbox(t), thief.URL)),
	} {
		t.Run(name, func(t *testing.T) { examine(t, front, "-wait", "2s") })
	}
	if len(stolen) > 0 {
		t.Errorf("another origin was asked: %q", stolen)
	}
}

// Where a server repeats the token at the end of what a line shows, no part of it is left.
func TestTokenAtTheCut(t *testing.T) {
	for size := 150; size < 300; size += 15 {
		ref := "https://evil.example/" + strings.Repeat("x", size) + secret
		if r := examine(t, edge(endpoint(ref))); !r.has("endpoint-origin") {
			t.Errorf("the endpoint was not looked at:\n%s", r.text)
		}
	}
}

func TestMistakes(t *testing.T) {
	for _, args := range [][]string{{"-nope"}, {"-backend", "nonsense"}, {"-backend", "http://%zz"}, {"a", "b"}, {"ftp://x/"}, {"https://u:p@x/"}, {"https://x/?token=" + secret}, {"http://example.com/mcp-sandbox"}} {
		var out, errs bytes.Buffer
		if code := Main(t.Context(), args, &out, &errs); code != 2 || strings.Contains(errs.String(), secret) {
			t.Errorf("%q: %d %s", args, code, errs.String())
		}
	}
}

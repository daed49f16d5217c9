//go:build bench

package bench_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/figures"
	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// What the plugin costs on a call of 1 KiB, beside Traefik alone and beside
// forwardAuth, the native way to ask somebody else for a verdict, which sees
// no body and so cannot say which tool may be called.
func TestBenchTraefik(t *testing.T) {
	asked(t)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	}))
	t.Cleanup(backend.Close)
	token, file := rig.NewToken(t)
	auth := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(auth.Close)
	_, backendToken := rig.NewToken(t)
	yaml := fmt.Sprintf(`http:
  routers:
    alone: {rule: "PathPrefix(%[1]s/alone%[1]s)", entryPoints: [web], service: s}
    plugin: {rule: "PathPrefix(%[1]s/mcp-sandbox%[1]s)", entryPoints: [web], service: s, middlewares: [plugin]}
    forward: {rule: "PathPrefix(%[1]s/forward%[1]s)", entryPoints: [web], service: s, middlewares: [forward]}
  middlewares:
    forward: {forwardAuth: {address: "%[2]s"}}
    plugin:
      plugin:
        sallyport:
          backend: sandbox
          pathPrefix: /mcp-sandbox
          backendTokenFile: %[3]s
          auditLog: false
          tokens: [{name: bench, valueFile: "%[4]s", tools: [read_file], requestsPerMinute: 100000000, maxConcurrent: 1000}]
  services: {s: {loadBalancer: {servers: [{url: "%[5]s"}]}}}
`, "`", auth.URL, backendToken, file, backend.URL)
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"%s"}}}`, strings.Repeat("a", 900))

	for _, fast := range []bool{false, true} {
		tr := rig.StartTraefik(t, rig.TraefikOptions{Dynamic: yaml, FastProxy: fast, Args: []string{"--log.level=ERROR"}})
		var rows []*row
		for _, way := range []struct{ name, path string }{{"Traefik alone", "/alone"}, {"with the plugin", "/mcp-sandbox/mcp"}, {"with forwardAuth", "/forward"}} {
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
			t.Cleanup(client.CloseIdleConnections)
			rows = append(rows, &row{name: way.name, do: func() error { return call(client, tr.Web+way.path, token, body) }, cpu: tr.CPU})
		}
		compare(t, fmt.Sprintf("A POST of 1 KiB through Traefik, fastProxy %t", fast), 8, figures.Pick(2*time.Second, 300*time.Millisecond), rows)
		figures.Add(t, figures.Row{Group: "Edge", Work: fmt.Sprintf("POST of 1 KiB through Traefik, 8 clients, fastProxy %t", fast), Unit: "requests/s",
			Alternative: "forwardAuth", Ours: rows[1].rates, Theirs: rows[2].rates, Judge: figures.Ratio})
	}
}

func call(client *http.Client, url, token, body string) error {
	req, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
		return fmt.Errorf("status %d, %v", resp.StatusCode, err)
	}
	return nil
}

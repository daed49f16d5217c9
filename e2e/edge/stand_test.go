// Package edge attacks the plugin through the real Traefik, with both of its
// proxies, on raw sockets. Each attack is sent twice: to the guarded entry point,
// and to its unguarded twin, which shows that the attack would have worked or
// that Traefik itself stops it.
package edge

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// got is one request as the backend saw it.
type got struct {
	uri     string
	header  http.Header
	trailer http.Header
	body    string
}

// backend records what reaches it.
type backend struct {
	*httptest.Server
	mu   sync.Mutex
	seen []got
}

func newBackend(t *testing.T) *backend {
	t.Helper()
	b := &backend{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		b.mu.Lock()
		b.seen = append(b.seen, got{r.RequestURI, r.Header, r.Trailer, string(body)})
		b.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	}))
	t.Cleanup(func() { b.CloseClientConnections(); b.Close() })
	return b
}

// take returns what was seen since the last time.
func (b *backend) take() []got {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := b.seen
	b.seen = nil
	return seen
}

// stand is Traefik with two entry points to one backend.
type stand struct {
	*rig.Traefik
	backend      *backend
	twin         string // base URL of the entry point without the plugin
	token        string
	backendToken string
}

// middleware is the guarded side's; settings are further lines of it.
func (s *stand) dynamic(clientFile, backendFile, settings string) string {
	return fmt.Sprintf(`http:
  routers:
    guarded: {rule: "PathPrefix(%[1]s)", entryPoints: [web], priority: 100002, service: s, middlewares: [edge]}
    closed: {rule: "PathPrefix(%[1]s)", entryPoints: [web], priority: 100001, service: closed}
    well-known: {rule: "PathPrefix(%[2]s)", entryPoints: [web], priority: 100002, service: s, middlewares: [edge]}
    twin: {rule: "PathPrefix(%[1]s)", entryPoints: [twin], service: s}
  middlewares:
    edge:
      plugin:
        sallyport:
          backend: sandbox
          pathPrefix: /mcp
          backendTokenFile: %[3]s
          failuresPerMinute: 100000
          tokens:
            - {name: poke, valueFile: %[4]s, tools: [read_file], requestsPerMinute: 1000000, maxConcurrent: 1000, maxStreams: 1000}
%[5]s
  services:
    s: {loadBalancer: {servers: [{url: "%[6]s"}]}}
    closed: {loadBalancer: {servers: []}}
`, "`/mcp`", "`/.well-known/`", backendFile, clientFile, settings, s.backend.URL)
}

func newStand(t *testing.T, fast bool, args ...string) *stand {
	t.Helper()
	return startStand(t, newBackend(t), fast, args...)
}

func startStand(t *testing.T, b *backend, fast bool, args ...string) *stand {
	t.Helper()
	s := &stand{backend: b}
	var clientFile, backendFile string
	s.token, clientFile = rig.NewToken(t)
	s.backendToken, backendFile = rig.NewToken(t)
	twin := rig.FreeAddr(t)
	s.twin = "http://" + twin
	s.Traefik = rig.StartTraefik(t, rig.TraefikOptions{
		FastProxy: fast, Dynamic: s.dynamic(clientFile, backendFile, ""),
		Args: append([]string{"--entrypoints.twin.address=" + twin}, args...),
	})
	return s
}

// bothProxies runs a test with Traefik's two proxies.
func bothProxies(t *testing.T, test func(t *testing.T, fast bool)) {
	t.Helper()
	for name, fast := range map[string]bool{"httputil": false, "fastproxy": true} {
		t.Run(name, func(t *testing.T) { test(t, fast) })
	}
}

const readFile = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"a"}}}`

func tool(name string) string { return strings.Replace(readFile, "read_file", name, 1) }

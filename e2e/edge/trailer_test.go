package edge

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// HTTP/2 has trailers behind an answer whose length is known, too, and they need not be
// announced. None of a backend's reaches a client, and the answer ends without them.
func TestTrailersDoNotPass(t *testing.T) {
	const body = `{"jsonrpc":"2.0","id":1,"result":{}}`
	clear := &http.Protocols{}
	clear.SetUnencryptedHTTP2(true)
	backend := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := r.Header.Get("X-Kind")
		w.Header().Set("Content-Type", "application/json")
		if kind == "stream" {
			w.Header().Set("Content-Type", "text/event-stream")
		} else {
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		}
		if kind == "odd" {
			w.Header().Set("X-Odd", "1") // then the edge looks at the answer
		}
		io.WriteString(w, body)
		if kind == "stream" {
			w.(http.Flusher).Flush()
		}
		w.Header().Set(http.TrailerPrefix+"Set-Cookie", "a=b")
	}))
	backend.Config.Protocols = &http.Protocols{}
	backend.Config.Protocols.SetHTTP1(true)
	backend.Config.Protocols.SetUnencryptedHTTP2(true)
	backend.Start()
	t.Cleanup(backend.Close)
	bothProxies(t, func(t *testing.T, fast bool) {
		token, file := rig.NewToken(t)
		twin := rig.FreeAddr(t)
		edge := "{plugin: {sallyport: {backend: other, pathPrefix: /mcp, filterTools: %s, backendAuth: none, tokens: [{name: a, valueFile: " + file + ", tools: [ping]}]}}}"
		tr := rig.StartTraefik(t, rig.TraefikOptions{FastProxy: fast, Args: []string{"--entrypoints.twin.address=" + twin}, Dynamic: fmt.Sprintf(`http:
  routers:
    plain: {rule: "Host(%[1]sh2c.example%[1]s)", entryPoints: [web], priority: 100002, service: h2c, middlewares: [plain]}
    filtered: {rule: "Host(%[1]sfiltered.example%[1]s)", entryPoints: [web], priority: 100002, service: h2c, middlewares: [filtered]}
    http1: {rule: "Host(%[1]shttp1.example%[1]s)", entryPoints: [web], priority: 100002, service: http1, middlewares: [plain]}
    twin: {rule: "Host(%[1]sh2c.example%[1]s) || Host(%[1]sfiltered.example%[1]s)", entryPoints: [twin], service: h2c}
    twin1: {rule: "Host(%[1]shttp1.example%[1]s)", entryPoints: [twin], service: http1}
  middlewares:
    plain: %[2]s
    filtered: %[3]s
  services:
    h2c: {loadBalancer: {servers: [{url: "h2c://%[4]s"}]}}
    http1: {loadBalancer: {servers: [{url: "http://%[4]s"}]}}
`, "`", fmt.Sprintf(edge, "false"), fmt.Sprintf(edge, "true"), strings.TrimPrefix(backend.URL, "http://"))})
		transport := &http.Transport{Protocols: clear}
		t.Cleanup(transport.CloseIdleConnections)
		ask := func(base, host, kind string) (trailers int, err error) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, "POST", base+"/mcp/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
			if err != nil {
				return 0, err
			}
			req.Host = host
			req.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}, "X-Kind": {kind}}
			resp, err := (&http.Client{Transport: transport}).Do(req)
			if err != nil {
				return 0, err
			}
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			if err == nil && (resp.StatusCode != 200 || string(got) != body) {
				err = fmt.Errorf("status %d: %s", resp.StatusCode, got)
			}
			return len(resp.Trailer["Set-Cookie"]), err
		}
		for _, host := range []string{"h2c.example", "filtered.example", "http1.example"} {
			for _, kind := range []string{"plain", "odd", "stream"} {
				if host == "http1.example" && (kind != "stream" || fast) {
					continue // HTTP/1 has trailers of chunked answers only, and the fast proxy cannot read those
				}
				if n, err := ask(tr.Web, host, kind); n != 0 || err != nil {
					t.Errorf("%s, %s: %d trailers, %v", host, kind, n, err)
				}
				if n, err := ask("http://"+twin, host, kind); err != nil || n == 0 {
					t.Errorf("twin, %s, %s: %d trailers, %v", host, kind, n, err)
				}
			}
		}
	})
}

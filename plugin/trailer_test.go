package plugin

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
)

// What stands behind an answer reaches no client, neither as a trailer nor, where the
// answer was held to be filtered, as a header: it would have passed without a look.
func TestTrailersOfAnswersDoNotPass(t *testing.T) {
	logged(t)
	const list = `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"read_file"},{"name":"other"}]}}`
	hidden := []string{"Set-Cookie", "Www-Authenticate", "Location", "Clear-Site-Data", "X-Any"}
	for _, kind := range []string{"application/json", "text/event-stream"} {
		for _, announced := range []bool{true, false} {
			backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				h := w.Header()
				h.Set("Content-Type", kind)
				h.Set("X-Before", "1")
				prefix := http.TrailerPrefix
				if announced {
					h.Set("Trailer", strings.Join(hidden, ", "))
					prefix = ""
				}
				_, _ = io.WriteString(w, map[string]string{"text/event-stream": "data: "}[kind]+list+"\n\n")
				w.(http.Flusher).Flush()
				for _, key := range hidden {
					h.Set(prefix+key, "https://evil.example/")
				}
			}))
			to, _ := url.Parse(backend.URL)
			proxy := httputil.NewSingleHostReverseProxy(to)
			for _, filter := range []bool{true, false} {
				e := newPair(t, func(c *Config) {
					c.Backend = "other"
					c.FilterTools = filter
				})
				e.next = proxy
				for name, front := range map[string]http.Handler{"the edge": e, "its twin": proxy} {
					srv := httptest.NewServer(front)
					q := post("/mcp/mcp", named("tools"))
					req, err := http.NewRequest("POST", srv.URL+"/mcp/mcp", strings.NewReader(called("tools/list", "{}")))
					must(t, err)
					req.Header = q.Header
					resp, err := http.DefaultClient.Do(req)
					must(t, err)
					body, err := io.ReadAll(resp.Body)
					must(t, err)
					resp.Body.Close()
					srv.Close()
					passed := 0
					for _, key := range hidden {
						passed += len(resp.Header[key]) + len(resp.Trailer[key])
					}
					if resp.StatusCode != 200 || resp.Header.Get("X-Before") != "1" || !strings.Contains(string(body), "read_file") {
						t.Errorf("%s: %d %v %s", name, resp.StatusCode, resp.Header, body)
					}
					if name == "the edge" && passed != 0 || name != "the edge" && passed == 0 {
						t.Errorf("%s, %s, announced %v, filtered %v: headers %v, trailers %v", name, kind, announced, filter,
							resp.Header, resp.Trailer)
					}
				}
			}
			backend.Close()
		}
	}
}

package chain_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// What is wrong is refused by the gate that it meets first, with a status and
// words that say why, and nothing secret gets into a log.
func TestRefusals(t *testing.T) {
	withBothProxies(t, func(t *testing.T, fast bool) {
		c := rig.StartChain(t, rig.ChainOptions{FastProxy: fast})
		edge, backend := c.Base+"/mcp", c.Sandbox.URL+"/mcp-sandbox/mcp"
		wrong := strings.Repeat("w", 40)
		grants := http.Header{"X-Sallyport-Principal": {"token:client"}, "X-Sallyport-Tools": {"read_file"}}

		for _, r := range []struct {
			name    string
			request request
			status  int
			says    string // part of the body, lower case
		}{
			{"right", post(edge, c.Token, initialize), 200, "protocolversion"},
			{"wrong token", post(edge, wrong, initialize), 401, ""},
			{"short token", post(edge, "short", initialize), 401, ""},
			{"the backend's token at the edge", post(edge, c.Sandbox.Token, initialize), 401, ""},
			{"two Authorization headers", with(post(edge, "", initialize), http.Header{"Authorization": {"Bearer " + c.Token, "Bearer " + wrong}}), 401, ""},
			{"token in the query", post(edge+"?token="+c.Token+"&access_token="+c.Token, "", initialize), 401, ""},
			{"10 MB body", post(edge, c.Token, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"`+strings.Repeat("a", 10<<20)+`"}}`), 413, ""},
			{"invalid JSON", post(edge, c.Token, `{"jsonrpc":"2.0",`), 400, "json"},
			{"unknown session", with(post(edge, c.Token, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`),
				http.Header{"Mcp-Session-Id": {"nobody"}, "Mcp-Protocol-Version": {"2025-06-18"}}), 404, "session"},
			{"unknown SSE session", post(c.Base+"/sse?sessionid=nobody", c.Token, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), 404, "session"},
			{"foreign Origin", with(post(edge, c.Token, initialize), http.Header{"Origin": {"https://evil.example"}}), 403, "origin"},
			{"foreign Host", with(post(edge, c.Token, initialize), http.Header{"Host": {"evil.example"}}), 403, "host"},
			{"a client's own X-Sallyport headers", with(post(edge, c.Token, initialize),
				http.Header{"X-Sallyport-Principal": {"token:root"}, "X-Sallyport-Ask": {"read_file"}}), 200, "protocolversion"},

			// Past the edge, with the backend's token in hand.
			{"backend, right", with(post(backend, c.Sandbox.Token, initialize), grants), 200, "protocolversion"},
			{"backend, client's token", with(post(backend, c.Token, initialize), grants), 401, ""},
			{"backend, none of the edge's headers", post(backend, c.Sandbox.Token, initialize), 403, "edge"},
			{"backend, Principal missing", with(post(backend, c.Sandbox.Token, initialize), without(grants, "X-Sallyport-Principal")), 403, "x-sallyport-principal"},
			{"backend, Tools missing", with(post(backend, c.Sandbox.Token, initialize), without(grants, "X-Sallyport-Tools")), 403, "x-sallyport-tools"},
			{"backend, Principal doubled", with(post(backend, c.Sandbox.Token, initialize), grants, http.Header{"X-Sallyport-Principal": {"token:a", "token:b"}}), 403, "x-sallyport-principal"},
			{"backend, Tools doubled", with(post(backend, c.Sandbox.Token, initialize), grants, http.Header{"X-Sallyport-Tools": {"a", "b"}}), 403, "x-sallyport-tools"},
			{"backend, Ask doubled", with(post(backend, c.Sandbox.Token, initialize), grants, http.Header{"X-Sallyport-Ask": {"a", "b"}}), 403, "x-sallyport-ask"},
			{"backend, Egress doubled", with(post(backend, c.Sandbox.Token, initialize), grants, http.Header{"X-Sallyport-Egress": {"a.example", "b.example"}}), 403, "x-sallyport-egress"},
			{"backend, Request doubled", with(post(backend, c.Sandbox.Token, initialize), grants, http.Header{"X-Sallyport-Request": {"a", "b"}}), 403, "x-sallyport-request"},
			{"backend, Egress alone", with(post(backend, c.Sandbox.Token, initialize), http.Header{"X-Sallyport-Egress": {"a.example"}}), 403, "x-sallyport-principal"},
		} {
			t.Run(r.name, func(t *testing.T) {
				got := do(t, r.request)
				if got.status != r.status || !strings.Contains(strings.ToLower(got.body), r.says) {
					t.Errorf("%.300s, want %d with %q", got, r.status, r.says)
				}
				if got.status >= 400 && strings.TrimSpace(got.body) == "" {
					t.Error("a refusal without a word")
				}
			})
		}

		logs := c.Traefik.Log.String() + c.Sandbox.Log.String()
		for name, secret := range map[string]string{"client token": c.Token, "backend token": c.Sandbox.Token, "wrong token": wrong} {
			if strings.Contains(logs, secret) {
				t.Errorf("the %s is in a log", name)
			}
		}
	})
}

// with adds headers to a request.
func with(r request, more ...http.Header) request {
	header := r.header.Clone()
	for _, h := range more {
		for name, values := range h {
			header[name] = values
		}
	}
	r.header = header
	return r
}

func without(h http.Header, name string) http.Header {
	h = h.Clone()
	h.Del(name)
	return h
}

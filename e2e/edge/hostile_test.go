package edge

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// Each row replaces one line of a good middleware, as Traefik decodes it: a
// misspelt key, a wrong type, an empty value, nonsense.
var hostile = []struct{ line, by string }{
	{"backend: sandbox", "backend: sandbx"},
	{"backend: sandbox", "backend: [sandbox, hub]"},
	{"backend: sandbox", "backnd: sandbox"},
	{"pathPrefix: /mcp", "pathPrefix: ''"},
	{"pathPrefix: /mcp", "pathPrefix: mcp"},
	{"pathPrefix: /mcp", "pathPrefix: //evil"},
	{"pathPrefix: /mcp", "pathPrefix: {a: b}"},
	{"pathPrefix: /mcp", "prefix: /mcp"},
	{"backendTokenFile: TOKENFILE", "backendTokenFile: /nowhere"},
	{"backendTokenFile: TOKENFILE", "backendTokenFile: CLIENTFILE"},
	{"backendTokenFile: TOKENFILE", "backendToken: short"},
	{"backendTokenFile: TOKENFILE", "backendAuth: maybe"},
	{"backendTokenFile: TOKENFILE", "backendAuth: none\n          backendToken: 0123456789012345678901234567890123456789"},
	{"maxBodyBytes: 1000", "maxBodyBytes: 0"},
	{"maxBodyBytes: 1000", "maxBodyBytes: 99999999999999999999"},
	{"maxBodyBytes: 1000", "maxBodyBytes: much"},
	{"maxBodyBytes: 1000", "failuresPerMinute: -1"},
	{"maxBodyBytes: 1000", "clientAddress: anywhere"},
	{"maxBodyBytes: 1000", "logLevel: loud"},
	{"maxBodyBytes: 1000", "auditLog: perhaps"},
	{"maxBodyBytes: 1000", "filterTools: true"},
	{"maxBodyBytes: 1000", "allowedOrigins: ['*']"},
	{"maxBodyBytes: 1000", "allowedOrigins: {a: b}"},
	{"maxBodyBytes: 1000", "oauth: {}"},
	{"maxBodyBytes: 1000", "oauth: {issuer: 'https://id.example'}"},
	{"maxBodyBytes: 1000", "oauth: 7"},
	{"maxBodyBytes: 1000", "oauth: {issuer: 'https://id.example', audience: 'https://n.example/mcp', tools: [read_file]}"},
	{"maxBodyBytes: 1000", "oauth: {issuer: 'https://id.example', audience: 'https://n.example/mcp', tools: [read_file], principals: {}}"},
	{"maxBodyBytes: 1000", "oauth: {issuer: 'https://id.example', audience: 'https://n.example/mcp', tools: [read_file], principals: [a]}"},
	{"maxBodyBytes: 1000", "oauth: {issuer: 'https://id.example', audience: 'https://n.example/mcp', tools: [read_file], principals: {a: {b: c}}}"},
	{"maxBodyBytes: 1000", "oauth: {issuer: 'https://id.example', audience: 'api://x', tools: [read_file], toolsClaim: tools}"},
	{"maxBodyBytes: 1000", "extra: {a: b}"},
	{"name: poke", "name: Poke"},
	{"name: poke", "nam: poke"},
	{"valueFile: CLIENTFILE", "sha256: abc"},
	{"valueFile: CLIENTFILE", "value: short"},
	{"valueFile: CLIENTFILE", "valueFile: /dev/zero"},
	{"valueFile: CLIENTFILE", "valuefiles: CLIENTFILE"},
	{"tools: [read_file]", "tools: []"},
	{"tools: [read_file]", "tools: ['']"},
	{"tools: [read_file]", "tools: ['ask:']"},
	{"tools: [read_file]", "tools: [files/read]"},
	{"tools: [read_file]", "tools: ['user/update']"},
	{"tools: [read_file]", "tools: ['übung']"},
	{"tools: [read_file]", "tools: [read_file]\n              egress: [10.0.0.1]"},
	{"tools: [read_file]", "tools: [read_file]\n              egress: ['private:nas.home:443']"},
	{"tools: [read_file]", "tool: [read_file]"},
	{"tools: [read_file]", "tools: [read_file]\n              expires: tomorrow"},
	{"tools: [read_file]", "tools: [read_file]\n              maxStreams: -5"},
	{"tools: [read_file]", "tools: [read_file]\n              requestsPerMinute: 1e99"},
}

// A hostile or broken configuration never opens the route, never panics, and
// the next good one is served.
func TestHostileConfiguration(t *testing.T) {
	backend, catchAll := newBackend(t), newBackend(t)
	token, clientFile := rig.NewToken(t)
	_, tokenFile := rig.NewToken(t)
	yaml := func(line, by string) string {
		good := fmt.Sprintf(`http:
  routers:
    guarded: {rule: "PathPrefix(%[1]s)", entryPoints: [web], priority: 100002, service: s, middlewares: [edge]}
    closed: {rule: "PathPrefix(%[1]s)", entryPoints: [web], priority: 100001, service: closed}
    catch-all: {rule: "PathPrefix(%[2]s)", entryPoints: [web], service: open}
  services:
    s: {loadBalancer: {servers: [{url: "%[3]s"}]}}
    open: {loadBalancer: {servers: [{url: "%[4]s"}]}}
    closed: {loadBalancer: {servers: []}}
  middlewares:
    edge:
      plugin:
        sallyport:
          backend: sandbox
          pathPrefix: /mcp
          backendTokenFile: TOKENFILE
          maxBodyBytes: 1000
          tokens:
            - name: poke
              valueFile: CLIENTFILE
              tools: [read_file]
`, "`/mcp`", "`/`", backend.URL, catchAll.URL)
		if !strings.Contains(good, line) {
			t.Fatalf("%q is not in the configuration", line)
		}
		return strings.NewReplacer("TOKENFILE", tokenFile, "CLIENTFILE", clientFile).Replace(strings.Replace(good, line, by, 1))
	}
	tr := rig.StartTraefik(t, rig.TraefikOptions{Dynamic: yaml("", ""), Args: []string{"--providers.providersthrottleduration=100ms"}})
	good := attack{}.request(token)
	if a := good.http1(t, tr.Web); a.status != 200 || len(backend.take()) != 1 {
		t.Fatalf("the good configuration: status %d", a.status)
	}
	for _, row := range hostile {
		tr.SetDynamic(t, yaml(row.line, row.by))
		for _, w := range []wire{good, {method: "GET", target: "/mcp/sse"}} {
			if a := w.http1(t, tr.Web); a.status != 503 {
				t.Errorf("%s for %s: status %d %s", row.by, row.line, a.status, a.body)
			}
		}
		asked := func(g got) bool { return strings.HasPrefix(g.uri, "/rig-") } // by the rig
		if seen := append(backend.take(), slices.DeleteFunc(catchAll.take(), asked)...); len(seen) > 0 {
			t.Errorf("%s for %s: a backend sees %q", row.by, row.line, seen[0].uri)
		}
	}
	// Without the second router the catch-all would get them all.
	tr.SetDynamic(t, strings.Replace(yaml("pathPrefix: /mcp", "pathPrefix: mcp"), "priority: 100001", "priority: -1", 1))
	if a := good.http1(t, tr.Web); a.status != 200 {
		t.Errorf("with a weak second router: status %d; the rows above prove nothing", a.status)
	}
	tr.SetDynamic(t, yaml("", ""))
	if a := good.http1(t, tr.Web); a.status != 200 {
		t.Errorf("the good configuration afterwards: status %d %s", a.status, a.body)
	}
	if strings.Contains(tr.Log.String(), "panic") || strings.Contains(tr.Log.String(), token) {
		t.Error("the log has a panic or a token")
	}
}

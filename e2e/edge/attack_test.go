package edge

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// attack is one row. What is not given is that of a good call.
type attack struct {
	what    string // the advisory or the trick
	method  string
	target  string
	header  [][2]string
	token   string // of Authorization; "-" for none, default the right one
	body    string
	trailer [][2]string
	http1   bool // cannot be said in HTTP/2
	open    bool // entry points believe X-Forwarded-*, as behind a trusted hop

	status int            // that the guarded side answers
	bad    func(got) bool // what the backend must not see; nil: anything at all
	// The twin: through, or stopped by Traefik 3.7.13 itself.
	stopped     bool
	fastStopped bool // by the fast proxy only
}

func path(forbidden string) func(got) bool {
	return func(g got) bool { return strings.Contains(strings.ToLower(g.uri), forbidden) }
}

// header says whether the backend sees a value in any header whose name folds to
// the given one.
func header(name, value string) func(got) bool {
	fold := strings.NewReplacer("_", "-", ".", "-")
	return func(g got) bool {
		for key, values := range g.header {
			if strings.EqualFold(fold.Replace(key), name) && strings.Contains(strings.Join(values, ","), value) {
				return true
			}
		}
		return false
	}
}

func zipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write([]byte(s))
	w.Close()
	return b.String()
}

var attacks = []attack{
	// Paths. Traefik resolves plain dot segments before it routes; what is
	// encoded or has parameters it passes on.
	{what: "CVE-2025-32431 dot segments", target: "/mcp/../admin", status: 404, bad: path("admin"), stopped: true},
	{what: "CVE-2025-32431 encoded dot segments", target: "/mcp/%2e%2e/admin", status: 404, bad: path("admin"), stopped: true},
	{what: "CVE-2026-48020 dot segments to the prefix", target: "/mcp/..", status: 404, bad: path(".."), stopped: true},
	{what: "CVE-2025-47952 encoded slash", target: "/mcp/..%2fadmin", status: 404},
	{what: "CVE-2025-47952 encoded slash before dots", target: "/mcp%2f..%2fadmin", status: 404},
	{what: "CVE-2025-66490 %2F", target: "/mcp/a%2Fb", status: 404},
	{what: "CVE-2025-66490 %5C", target: "/mcp/..%5Cadmin", status: 404},
	{what: "CVE-2025-66490 %00", target: "/mcp/a%00b", status: 404},
	{what: "CVE-2025-66490 %3B", target: "/mcp/a%3Bb", status: 404},
	{what: "CVE-2025-66490 %3F", target: "/mcp/a%3Fb", status: 404},
	{what: "CVE-2025-66490 %23", target: "/mcp/a%23b", status: 404},
	{what: "double encoding", target: "/mcp/%252e%252e/admin", status: 404},
	{what: "CVE-2026-137481 dot segments with parameters", target: "/mcp/..;x/admin", status: 404},
	{what: "CVE-2026-137481 encoded dots with parameters", target: "/mcp/%2e%2e;x/admin", status: 404},
	{what: "CVE-2026-65600 no segment boundary", target: "/mcpadmin", status: 404},
	{what: "CVE-2026-65600 dots behind the prefix", target: "/mcp..", status: 404},
	{what: "CVE-2026-40912 encoded prefix", target: "/mc%70%2fadmin", status: 404},
	{what: "raw backslash", target: `/mcp/..\admin`, status: 404},
	{what: "raw semicolon", target: "/mcp/a;b", status: 404},
	{what: "doubled slash", target: "/mcp//admin", status: 200, bad: path("//"), stopped: true},
	{what: "absolute form", target: "http://other.example/mcp/../admin", http1: true, status: 404, bad: path("admin"), stopped: true},
	{what: "fragment", target: "/mcp/a#/../admin", http1: true, status: 400, stopped: true},
	{what: "OAuth discovery in token mode", method: "GET", target: "/mcp/.well-known/openid-configuration", token: "-", status: 404},

	// Methods and protocol changes.
	{what: "PUT", method: "PUT", status: 405},
	{what: "OPTIONS", method: "OPTIONS", token: "-", status: 405},
	{what: "CONNECT-like method", method: "FOO", status: 405},
	{what: "WebSocket", method: "GET", body: " ", http1: true, header: [][2]string{{"Connection", "Upgrade"}, {"Upgrade", "websocket"}}, status: 400},
	{what: "GET with a body", method: "GET", body: tool("run_command"), status: 400},
	{what: "DELETE with a body", method: "DELETE", body: tool("run_command"), status: 400},
	{what: "GET with a chunked body", method: "GET", body: "x", trailer: [][2]string{}, http1: true, status: 400},

	// Tokens.
	{what: "no token", token: "-", status: 401},
	{what: "wrong token", token: "Bearer 0123456789012345678901234567890123456789", status: 401},
	{what: "short token", token: "Bearer x", status: 401},
	{what: "empty token", token: "Bearer ", status: 401},
	{what: "other scheme", token: "Basic Zm9vOmJhcg==", status: 401},
	{what: "huge token", token: "Bearer " + strings.Repeat("x", 100<<10), status: 401},
	{what: "two tokens", header: [][2]string{{"Authorization", "Bearer other"}}, status: 401},
	{what: "token in the query", target: "/mcp/mcp?token=TOKEN&access_token=TOKEN", token: "-", status: 401},
	{what: "token in an alias", token: "-", header: [][2]string{{"Authorization_", "Bearer TOKEN"}, {"X_Authorization", "Bearer TOKEN"}}, status: 401},
	{what: "PR #11077 Connection: Authorization", http1: true, header: [][2]string{{"Connection", "Authorization"}}, status: 401},
	{what: "CVE-2026-88004 token in a trailer", token: "-", trailer: [][2]string{{"Authorization", "Bearer TOKEN"}}, status: 401},
	{what: "client's token", status: 200, bad: header("Authorization", "TOKEN")},

	// Origins.
	{what: "foreign Origin", header: [][2]string{{"Origin", "https://evil.example"}}, status: 403},
	{what: "null Origin", header: [][2]string{{"Origin", "null"}}, status: 403},

	// Headers that only the edge or a trusted hop may say.
	{what: "X-Sallyport-Tools", header: [][2]string{{"X-Sallyport-Tools", "spoofed"}}, status: 200, bad: header("X-Sallyport-Tools", "spoofed")},
	{what: "X-Sallyport-Principal", header: [][2]string{{"X-Sallyport-Principal", "spoofed"}}, status: 200, bad: header("X-Sallyport-Principal", "spoofed")},
	{what: "X-Sallyport-Ask", header: [][2]string{{"x-sallyport-ask", "spoofed"}}, status: 200, bad: header("X-Sallyport-Ask", "spoofed")},
	{what: "X-Sallyport-Egress", header: [][2]string{{"X-Sallyport-Egress", "spoofed"}}, status: 200, bad: header("X-Sallyport-Egress", "spoofed")},
	{what: "Connection: the edge's headers", http1: true, header: [][2]string{{"Connection", "X-Sallyport-Principal, X-Sallyport-Tools, X-Sallyport-Egress"}}, status: 200,
		bad: func(g got) bool {
			return !header("X-Sallyport-Principal", "token:")(g) || !header("X-Sallyport-Tools", "")(g)
		}},
	{what: "X_Sallyport_Egress", header: [][2]string{{"X_Sallyport_Egress", "spoofed"}}, status: 200, bad: header("X-Sallyport-Egress", "spoofed")},
	{what: "CVE-2026-39858 underscores", header: [][2]string{{"X_Sallyport_Tools", "spoofed"}}, status: 200, bad: header("X-Sallyport-Tools", "spoofed")},
	{what: "CVE-2026-54763 mixed alias", header: [][2]string{{"X-Sallyport_tOOls", "spoofed"}}, status: 200, bad: header("X-Sallyport-Tools", "spoofed")},
	{what: "CVE-2026-54763 dots", header: [][2]string{{"X.Sallyport.Tools", "spoofed"}}, status: 200, bad: header("X-Sallyport-Tools", "spoofed")},
	{what: "CVE-2026-33433 alias of X-Auth-User", header: [][2]string{{"X_Auth_User", "spoofed"}}, status: 200, bad: header("X-Auth-User", "spoofed")},
	{what: "Forwarded", header: [][2]string{{"Forwarded", "for=spoofed"}}, status: 200, bad: header("Forwarded", "spoofed")},
	{what: "Tailscale-User-Login", header: [][2]string{{"Tailscale-User-Login", "spoofed"}}, status: 200, bad: header("Tailscale-User-Login", "spoofed")},
	{what: "tailscale_user_login", header: [][2]string{{"tailscale_user_login", "spoofed"}}, status: 200, bad: header("Tailscale-User-Login", "spoofed")},
	{what: "CVE-2026-35051 X-Forwarded-Prefix", header: [][2]string{{"X-Forwarded-Prefix", "/spoofed"}}, status: 200, bad: header("X-Forwarded-Prefix", "spoofed"), stopped: true},
	{what: "CVE-2026-35051 X-Forwarded-Prefix from a trusted hop", open: true, header: [][2]string{{"X-Forwarded-Prefix", "/spoofed"}}, status: 200, bad: header("X-Forwarded-Prefix", "spoofed")},
	{what: "X_Forwarded_Prefix", open: true, header: [][2]string{{"X_Forwarded_Prefix", "/spoofed"}}, status: 200, bad: header("X-Forwarded-Prefix", "spoofed")},
	{what: "#7559 X-Replaced-Path", header: [][2]string{{"X-Replaced-Path", "/spoofed"}}, status: 200, bad: header("X-Replaced-Path", "spoofed")},
	{what: "X-Original-URL", header: [][2]string{{"X-Original-URL", "/spoofed"}}, status: 200, bad: header("X-Original-Url", "spoofed")},
	{what: "X-HTTP-Method-Override", header: [][2]string{{"X-HTTP-Method-Override", "DELETE"}}, status: 200, bad: header("X-Http-Method-Override", "DELETE")},
	{what: "CVE-2026-29054 Connection drops what we set", http1: true, header: [][2]string{{"Connection", "X-Sallyport-Tools, X-Sallyport-Principal"}}, status: 200,
		bad: func(g got) bool { return g.header.Get("X-Sallyport-Tools") == "" }},
	{what: "CVE-2026-88004 identity in a trailer", trailer: [][2]string{{"X-Sallyport-Tools", "*"}}, header: [][2]string{{"Trailer", "X-Sallyport-Tools"}}, status: 200,
		bad: func(g got) bool { return g.trailer != nil }, fastStopped: true},

	// Bodies. CVE-2026-27896: the policy and the backend must read the same.
	{what: "another case of method", body: strings.Replace(tool("rm_all"), `"params"`, `"Method":"ping","params"`, 1), status: 400},
	{what: "method twice", body: strings.Replace(tool("rm_all"), `"params"`, `"method":"ping","params"`, 1), status: 400},
	{what: "name twice", body: strings.Replace(readFile, `"arguments"`, `"name":"rm_all","arguments"`, 1), status: 400},
	{what: "another case of name", body: strings.Replace(readFile, `"arguments"`, `"NAME":"rm_all","arguments"`, 1), status: 400},
	{what: "a batch", body: "[" + tool("rm_all") + "]", status: 400},
	{what: "a second message", body: readFile + tool("rm_all"), status: 400},
	{what: "a byte order mark", body: "\xef\xbb\xbf" + tool("rm_all"), status: 400},
	{what: "gzip", body: zipped(tool("rm_all")), header: [][2]string{{"Content-Encoding", "gzip"}}, status: 415},
	{what: "gzip without saying so", body: zipped(tool("rm_all")), status: 400},
	{what: "deep nesting", body: `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}}`, status: 400},
	{what: "10 MB", body: `{"a":"` + strings.Repeat("x", 10<<20) + `"}`, status: 413, http1: true},
	{what: "no-cors form post", header: [][2]string{{"Content-Type", "text/plain"}}, status: 415},
	{what: "2026-07-28 Mcp-Name disagrees", body: tool("rm_all"), header: [][2]string{{"Mcp-Name", "read_file"}}, status: 400},
	{what: "2026-07-28 Mcp-Method disagrees", header: [][2]string{{"Mcp-Method", "ping"}}, status: 400},
	{what: "2026-07-28 Mcp-Name in Base64 disagrees", header: [][2]string{{"Mcp-Name", "=?base64?cm1fYWxs?="}}, status: 400},
	{what: "a tool that is not granted", body: tool("rm_all"), status: 403},
	{what: "a tool that is not granted, chunked", body: tool("rm_all"), trailer: [][2]string{}, http1: true, status: 403},
	{what: "a method that is not granted", body: `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///etc/passwd"}}`, status: 403},

	// Smuggling: Traefik's own parser decides, and the plugin reads what it read.
	{what: "CL.TE", http1: true, header: [][2]string{{"Content-Length", "3"}}, trailer: [][2]string{}, body: readFile, status: 200,
		bad: func(g got) bool { return g.body != readFile }, stopped: true},
	{what: "two lengths", http1: true, header: [][2]string{{"Content-Length", "3"}}, status: 400, stopped: true},
}

// request is the row on the wire. The twin's requests carry the token as well.
func (a attack) request(token string) wire {
	fill := func(s string) string { return strings.ReplaceAll(s, "TOKEN", token) }
	w := wire{method: "POST", target: "/mcp/mcp", body: a.body, trailer: a.trailer}
	if a.method != "" {
		w.method = a.method
	} else if a.body == "" {
		w.body = readFile
	}
	if a.target != "" {
		w.target = fill(a.target)
	}
	if !slices.ContainsFunc(a.header, func(h [2]string) bool { return h[0] == "Content-Type" }) {
		w.header = append(w.header, [2]string{"Content-Type", "application/json"})
	}
	switch a.token {
	case "":
		w.header = append(w.header, [2]string{"Authorization", "Bearer " + token})
	case "-":
	default:
		w.header = append(w.header, [2]string{"Authorization", a.token})
	}
	for _, h := range a.header {
		w.header = append(w.header, [2]string{h[0], fill(h[1])})
	}
	if a.trailer != nil {
		w.trailer = [][2]string{}
	}
	for _, h := range a.trailer {
		w.trailer = append(w.trailer, [2]string{h[0], fill(h[1])})
	}
	return w
}

func TestAttacks(t *testing.T) {
	bothProxies(t, func(t *testing.T, fast bool) {
		strict := newStand(t, fast)
		open := newStand(t, fast, "--entrypoints.web.forwardedheaders.insecure=true", "--entrypoints.twin.forwardedheaders.insecure=true")
		for _, a := range attacks {
			s := strict
			if a.open {
				s = open
			}
			bad := func(all []got) bool {
				return slices.ContainsFunc(all, func(g got) bool {
					if a.what == "client's token" {
						return strings.Contains(strings.Join(g.header["Authorization"], ","), s.token)
					}
					return a.bad == nil || a.bad(g)
				})
			}
			send := map[string]func(wire, *testing.T, string) answer{"http1": wire.http1, "h2c": wire.h2c}
			for version, send := range send {
				if version == "h2c" && a.http1 {
					continue
				}
				t.Run(a.what+"/"+version, func(t *testing.T) {
					s.backend.take()
					w := a.request(s.token)
					if guarded := send(w, t, s.Web); guarded.status != a.status {
						t.Errorf("the guarded side answers %d, want %d: %s", guarded.status, a.status, guarded.body)
					}
					if seen := s.backend.take(); bad(seen) {
						t.Errorf("it passes the guard: %q %v", seen[0].uri, seen[0].header)
					}
					send(w, t, s.twin)
					if through := bad(s.backend.take()); through == (a.stopped || fast && a.fastStopped) {
						t.Errorf("without the guard it gets through: %v; want %v", through, !through)
					}
				})
			}
		}
		alive(t, strict)
		alive(t, open)
	})
}

// alive sees that the stand still serves, and that its log has no token.
func alive(t *testing.T, s *stand) {
	t.Helper()
	if a := (attack{}).request(s.token).http1(t, s.Web); a.status != http.StatusOK {
		t.Errorf("a good call afterwards: status %d: %s", a.status, a.body)
	}
	log := s.Log.String()
	if strings.Contains(log, s.backendToken) {
		t.Error("Traefik's log has the backend's token")
	}
	for _, path := range []string{"/api/rawdata", "/api/http/middlewares"} {
		a := wire{method: "GET", target: path}.http1(t, s.API)
		if a.status != 200 || !strings.Contains(a.body, "edge@file") || strings.Contains(a.body, s.token) || strings.Contains(a.body, s.backendToken) {
			t.Errorf("%s: status %d; it must not have a token", path, a.status)
		}
	}
	if n := strings.Count(log, "panic"); n > 0 {
		t.Errorf("Traefik's log has %d panics", n)
	}
}

package plugin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A refusal is tested twice: what spoil does to a good request or configuration
// is refused, and the same request without it, or with the wall that mend takes
// down, reaches the backend.
type refusal struct {
	desc   string
	spoil  func(*http.Request)
	status int
	mend   func(*Config)
}

func header(key string, values ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header[key] = values }
}

func method(m string) func(*http.Request) {
	return func(r *http.Request) {
		r.Method = m
		r.Body = http.NoBody
		r.ContentLength = 0
	}
}

func payload(body string) func(*http.Request) {
	return func(r *http.Request) {
		r.Body = http.NoBody
		n := httptest.NewRequest("POST", "/", strings.NewReader(body))
		r.Body = n.Body
		r.ContentLength = n.ContentLength
	}
}

func both(a, b func(*http.Request)) func(*http.Request) {
	return func(r *http.Request) { a(r); b(r) }
}

func chunked(r *http.Request) {
	r.ContentLength = -1
	r.TransferEncoding = []string{"chunked"}
}

// named is a call of a tool.
func named(tool string) string { return strings.Replace(readFile, "read_file", tool, 1) }

func called(m, params string) string {
	return `{"jsonrpc":"2.0","id":"x","method":"` + m + `","params":` + params + `}`
}

var refusals = []refusal{
	{"upgrade", header("Upgrade", "websocket"), 400, nil},
	{"method PUT", method("PUT"), 405, nil},
	{"method OPTIONS", method("OPTIONS"), 405, nil},
	{"method CONNECT", method("CONNECT"), 405, nil},
	{"GET with a body", func(r *http.Request) { r.Method = "GET" }, 400, nil},
	{"GET with a chunked body", both(func(r *http.Request) { r.Method = "GET" }, chunked), 400, nil},
	{"DELETE with a body", func(r *http.Request) { r.Method = "DELETE" }, 400, nil},
	{"foreign origin", header("Origin", "https://evil.example"), 403, func(c *Config) { c.AllowedOrigins = []string{"https://evil.example"} }},
	{"null origin", header("Origin", "null"), 403, nil},
	{"empty origin", header("Origin", ""), 403, nil},
	{"two origins", header("Origin", "https://a.example", "https://evil.example"), 403, nil},
	{"no token", header("Authorization"), 401, nil},
	{"wrong token", header("Authorization", "Bearer "+otherToken), 401, func(c *Config) { c.Tokens[0].Value = otherToken }},
	{"token that is longer", header("Authorization", "Bearer "+clientToken+"x"), 401, nil},
	{"token that is shorter", header("Authorization", "Bearer "+clientToken[:len(clientToken)-1]), 401, nil},
	{"two tokens", header("Authorization", "Bearer "+clientToken, "Bearer "+clientToken), 401, nil},
	{"two tokens in one header", header("Authorization", "Bearer "+clientToken+", Bearer "+clientToken), 401, nil},
	{"other scheme", header("Authorization", "Basic "+clientToken), 401, nil},
	{"no scheme", header("Authorization", clientToken), 401, nil},
	{"tab for a space", header("Authorization", "Bearer\t"+clientToken), 401, nil},
	{"empty token", header("Authorization", "Bearer "), 401, nil},
	{"huge token", header("Authorization", "Bearer "+strings.Repeat("x", 1<<20)), 401, nil},
	{"the hash for the token", header("Authorization", "Bearer 3cdaae1f2c38dfe7d1d04826122806d1436b25a4bf001b378524e22a8539046a"), 401, nil},
	{"backend's own token", header("Authorization", "Bearer "+serverToken), 401, nil},
	{"token in the query", both(header("Authorization"), func(r *http.Request) { r.URL.RawQuery = "token=" + clientToken }), 401, nil},
	{"body over the cap", payload(named("read_file") + strings.Repeat(" ", 8<<20)), 413, func(c *Config) { c.MaxBodyBytes = 16 << 20 }},
	{"chunked body over the cap", both(payload(named("read_file")+strings.Repeat(" ", 8<<20)), chunked), 413, func(c *Config) { c.MaxBodyBytes = 16 << 20 }},
	{"form content type", header("Content-Type", "application/x-www-form-urlencoded"), 415, nil},
	{"text content type", header("Content-Type", "text/plain"), 415, nil},
	{"no content type", header("Content-Type"), 415, nil},
	{"two content types", header("Content-Type", "application/json", "application/json"), 415, nil},
	{"other charset", header("Content-Type", "application/json; charset=utf-16"), 415, nil},
	{"encoded body", header("Content-Encoding", "gzip"), 415, nil},
	{"not JSON", payload("hello"), 400, nil},
	{"a batch", payload("[" + readFile + "]"), 400, nil},
	{"other Mcp-Method", header("Mcp-Method", "ping"), 400, nil},
	{"other Mcp-Name", header("Mcp-Name", "run_command"), 400, nil},
	{"Mcp-Name in other case", header("Mcp-Name", "READ_FILE"), 400, nil},
	{"two Mcp-Names", header("Mcp-Name", "read_file", "run_command"), 400, nil},
	{"other Mcp-Name in Base64", header("Mcp-Name", "=?base64?cnVuX2NvbW1hbmQ=?="), 400, nil},
	{"bad Base64 in Mcp-Name", header("Mcp-Name", "=?base64?cmVhZF9maWxl!?="), 400, nil},
	{"Mcp-Name where the body has none", both(payload(called("ping", "{}")), header("Mcp-Name", "read_file")), 400, nil},
	{"other protocol version", both(payload(called("tools/list", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`)), header("Mcp-Protocol-Version", "2025-06-18")), 400, nil},
	{"tool that is not granted", payload(named("write_file")), 200, func(c *Config) { c.Tokens[0].Tools = []string{"write_file"} }},
	{"tool in other case", payload(named("Read_File")), 200, nil},
	{"tool with a slash", payload(named("sandbox/read_file")), 200, func(c *Config) { c.Tokens[0].Tools = []string{"*"} }},
	{"tool for a legacy client", both(payload(named("write_file")), header("Accept", "*/*")), 403, nil},
	{"tool in a notification", payload(strings.Replace(named("write_file"), `"id":1,`, "", 1)), 403, nil},
	{"method that is not granted", payload(called("resources/read", `{"uri":"file:///etc/passwd"}`)), 200, func(c *Config) { c.Tokens[0].Tools = []string{"method:resources/read"} }},
	{"method in other case", payload(called("Tools/List", "{}")), 200, nil},
	{"completion", payload(called("completion/complete", "{}")), 200, func(c *Config) { c.Tokens[0].Tools = []string{"*"} }},
	{"subscription to resources", payload(called("subscriptions/listen", `{"notifications":{"resourceSubscriptions":["file:///a"]}}`)), 200, func(c *Config) { c.Tokens[0].Tools = []string{"method:subscriptions/listen"} }},
	{"subscription with an escaped key", payload(called("subscriptions/listen", `{"notifications":{"\u0072esourceSubscriptions":["file:///a"]}}`)), 200, nil},
}

func TestRefusals(t *testing.T) {
	log := logged(t)
	for i := range refusals {
		row := refusals[i]
		s := &seen{}
		c := config()
		c.FailuresPerMinute = 10000
		c.Tokens[0].RequestsPerMinute = 100000
		h := start(t, c, s)
		r := post("/mcp/mcp", readFile)
		row.spoil(r)
		rec := do(h, r)
		if rec.Code != row.status || s.calls != 0 {
			t.Errorf("%s: status %d, want %d; the backend was called %d times", row.desc, rec.Code, row.status, s.calls)
		}
		if body := rec.Body.String(); row.status == 200 && !strings.Contains(body, "token:poke") {
			t.Errorf("%s: the error does not name the token: %s", row.desc, body)
		}
		if rec = do(h, post("/mcp/mcp", readFile)); rec.Code != 200 || s.calls != 1 {
			t.Errorf("%s: without it the status is %d", row.desc, rec.Code)
		}
		if row.mend == nil {
			continue
		}
		row.mend(c)
		r = post("/mcp/mcp", readFile)
		row.spoil(r)
		if do(start(t, c, s), r); s.calls != 2 {
			t.Errorf("%s: with the wall down it does not reach the backend", row.desc)
		}
	}
	if text := log.String(); strings.Contains(text, clientToken) || strings.Contains(text, serverToken) || strings.Contains(text, "/etc/passwd") {
		t.Error("the log has a token or an argument")
	}
}

func TestAccepts(t *testing.T) {
	logged(t)
	rows := []struct {
		desc   string
		change func(*http.Request)
	}{
		{"scheme in lower case", header("Authorization", "bearer "+clientToken)},
		{"several spaces", header("Authorization", "Bearer   "+clientToken)},
		{"charset", header("Content-Type", "application/json; charset=UTF-8")},
		{"matching Mcp headers", both(header("Mcp-Method", "tools/call"), header("Mcp-Name", "read_file"))},
		{"Mcp-Name in Base64", header("Mcp-Name", "=?base64?cmVhZF9maWxl?=")},
		{"a chunked body", chunked},
		{"initialize", payload(called("initialize", "{}"))},
		{"tools/list", payload(called("tools/list", "{}"))},
		{"server/discover", payload(called("server/discover", "{}"))},
		{"a notification", payload(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)},
		{"a response", payload(`{"jsonrpc":"2.0","id":3,"result":{}}`)},
		{"a subscription", payload(called("subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`))},
		{"GET", method("GET")}, {"HEAD", method("HEAD")}, {"DELETE", method("DELETE")},
		{"a trailing slash", func(r *http.Request) { r.URL.Path = "/mcp/" }},
	}
	for i := range rows {
		s := &seen{}
		r := post("/mcp/mcp", readFile)
		rows[i].change(r)
		if rec := do(start(t, config(), s), r); rec.Code != 200 || s.calls != 1 {
			t.Errorf("%s: status %d %s", rows[i].desc, rec.Code, rec.Body.String())
		}
	}
}

// A refusal of a call is a JSON-RPC error with the id of the request.
func TestRefusalHasTheID(t *testing.T) {
	logged(t)
	h := start(t, config(), &seen{})
	for id, want := range map[string]string{`"a\"b"`: `"id":"a\"b"`, "12345678901234567890": `"id":12345678901234567890`} {
		rec := do(h, post("/mcp/mcp", strings.Replace(named("write_file"), `"id":1`, `"id":`+id, 1)))
		if !strings.Contains(rec.Body.String(), want) || !strings.Contains(rec.Body.String(), "-32602") {
			t.Errorf("id %s: %s", id, rec.Body.String())
		}
		if kind := rec.Header().Get("Content-Type"); kind != "application/json" {
			t.Errorf("content type %q", kind)
		}
	}
	if rec := do(h, post("/mcp/mcp", called("resources/read", "{}"))); !strings.Contains(rec.Body.String(), "-32601") {
		t.Errorf("a refused method: %s", rec.Body.String())
	}
	if rec := do(h, post("/mcp/mcp", "{")); !strings.Contains(rec.Body.String(), `"id":null`) {
		t.Errorf("a body without id: %s", rec.Body.String())
	}
}

func TestPaths(t *testing.T) {
	logged(t)
	s := &seen{}
	h := start(t, config(), s)
	for path, status := range map[string]int{
		"/mcp": 200, "/mcp/": 200, "/mcp/sse": 200, "/mcp/a%20b": 200, "/mcp/a.b": 200, "/mcp/..a": 200, "/mcp/a..": 200,
		"/": 404, "/mcpx": 404, "/mcp..": 404, "/MCP/sse": 404, "/admin": 404, "/mcp%2fsse": 404, "/mcp%2F..%2Fadmin": 404,
		"/mcp/../admin": 404, "/mcp/./sse": 404, "/mcp/..": 404, "/mcp/.": 404, "/mcp/%2e%2e/admin": 404, "/mcp/..%2fadmin": 404,
		"/mcp/..;x/admin": 404, "/mcp/;x": 404, "/mcp//sse": 404, "//mcp/sse": 404, "/mcp/%5cadmin": 404, "/mcp/..%5cadmin": 404,
		"/mcp/%00": 404, "/mcp/%252e%252e/admin": 404, "/mcp/a%0ab": 404, "/%6dcp/sse": 404, "/mcp/%25": 404, "/mcp/a%2eb": 404,
		"/mcp/.well-known/openid-configuration": 404, "/.well-known/oauth-protected-resource": 404,
		"/.well-known/oauth-protected-resource/mcp/mcp": 404, "/.well-known/oauth-authorization-server": 404,
	} {
		s.calls = 0
		rec := do(h, post(path, readFile))
		if rec.Code != status || (s.calls == 1) != (status == 200) {
			t.Errorf("%s: status %d, want %d; the backend was called %d times", path, rec.Code, status, s.calls)
		}
		r := post(path, readFile)
		r.Header.Del("Authorization")
		if rec := do(h, r); status == 404 && rec.Code != 404 {
			t.Errorf("%s: status %d without a token: a path says nothing to strangers, but 404 is for all", path, rec.Code)
		}
	}
	r := post("/mcp/sse", readFile)
	r.URL.Opaque = "x"
	if rec := do(h, r); rec.Code != 404 {
		t.Errorf("an opaque URL: status %d", rec.Code)
	}
}

func TestMapsPath(t *testing.T) {
	logged(t)
	rows := []struct{ prefix, backend, path, want, forwarded string }{
		{"/mcp", "", "/mcp/sse?a=%2F&b", "/mcp/sse?a=%2F&b", ""},
		{"/mcp", "/mcp", "/mcp/sse", "/mcp/sse", ""},
		{"/mcp", "/", "/mcp", "/", "/mcp"},
		{"/mcp", "/", "/mcp/sse?", "/sse?", "/mcp"},
		{"/foo/bar", "/", "/foo/bar/a%20b/c", "/a%20b/c", "/foo/bar"},
		{"/foo/bar", "/bar", "/foo/bar/sse", "/bar/sse", "/foo"},
		{"/foo", "/x/y", "/foo/sse", "/x/y/sse", ""},
		{"/", "/x", "/sse", "/x/sse", ""},
		{"/", "", "/sse", "/sse", ""},
	}
	for i := range rows {
		row := rows[i]
		s := &seen{}
		c := config()
		c.PathPrefix = row.prefix
		c.BackendPath = row.backend
		r := post(row.path, readFile)
		r.Header.Set("X-Forwarded-Prefix", "/evil")
		if rec := do(start(t, c, s), r); rec.Code != 200 {
			t.Errorf("%s: status %d", row.path, rec.Code)
			continue
		}
		got := s.request
		if got.RequestURI != row.want || got.URL.RequestURI() != row.want || got.Header.Get("X-Forwarded-Prefix") != row.forwarded {
			t.Errorf("%s with %s to %s: %s, %s, prefix %q", row.path, row.prefix, row.backend, got.RequestURI, got.URL.RequestURI(), got.Header.Get("X-Forwarded-Prefix"))
		}
	}
}

func TestHeaders(t *testing.T) {
	logged(t)
	s := &seen{}
	c := config()
	c.Tokens[0].Tools = []string{"ask:run_command", "read_file", "method:prompts/list"}
	r := post("/mcp/mcp", readFile)
	spoofed := []string{"X-Sallyport-Principal", "X-Sallyport-Tools", "X-Sallyport-Ask", "X-Sallyport-Anything",
		"X_sallyport_tools", "X.sallyport.tools", "X-Sallyport_tools", "Tailscale-User-Login", "Tailscale_user_login",
		"Forwarded", "X-Forwarded-Prefix", "X_forwarded_prefix", "X-Original-Url", "X-Rewrite-Url", "X-Http-Method-Override",
		"Proxy-Authorization", "Connection", "Te", "Trailer", "X_authorization", "Authorization_"}
	for i := range spoofed {
		r.Header[spoofed[i]] = []string{"spoofed"}
	}
	r.Header["Mcp-Param-User_id"] = []string{"7"}
	r.Header["X-Other"] = []string{"kept"}
	r.Trailer = http.Header{"X-Sallyport-Tools": nil}
	if rec := do(start(t, c, s), r); rec.Code != 200 {
		t.Fatalf("status %d", rec.Code)
	}
	for key, values := range s.request.Header {
		if strings.Contains(strings.Join(values, ","), "spoofed") || strings.Contains(strings.Join(values, ","), clientToken) {
			t.Errorf("the backend sees %s: %q", key, values)
		}
	}
	h := s.request.Header
	if h.Get("X-Sallyport-Tools") != "run_command,read_file" || h.Get("X-Sallyport-Ask") != "run_command" {
		t.Errorf("tools %q, ask %q", h.Get("X-Sallyport-Tools"), h.Get("X-Sallyport-Ask"))
	}
	if h.Get("X-Other") != "kept" || len(h["Mcp-Param-User_id"]) != 1 {
		t.Error("headers of no concern were dropped")
	}
	if len(s.request.Trailer) != 0 {
		t.Error("trailers pass")
	}
}

// A foreign backend learns nothing of ours.
func TestForeignBackendHeaders(t *testing.T) {
	logged(t)
	s := &seen{}
	c := config()
	c.Backend = "other"
	c.BackendAuth = "none"
	c.BackendToken = ""
	if rec := do(start(t, c, s), post("/mcp/mcp", readFile)); rec.Code != 200 {
		t.Fatalf("status %d", rec.Code)
	}
	for key := range s.request.Header {
		if key == "Authorization" || strings.HasPrefix(key, "X-Sallyport-") {
			t.Errorf("the backend sees %s", key)
		}
	}
}

func TestGrantHeaders(t *testing.T) {
	logged(t)
	rows := []struct {
		backend    string
		grants     []string
		tools, ask string
	}{
		{"sandbox", []string{"read_file", " run_command "}, "read_file,run_command", ""},
		{"sandbox", []string{"*", "ask:run_command"}, "*", "run_command"},
		{"sandbox", []string{"read_file", "ask:read_file"}, "read_file", "read_file"},
		{"sandbox", []string{"ask:*"}, "*", "*"},
		{"sandbox", []string{"method:ping"}, "", ""},
		{"hub", []string{"files/*", "ask:git/push"}, "files/*,git/push", "git/push"},
	}
	for i := range rows {
		g := parseGrants(&mistakes{}, "", rows[i].backend, rows[i].grants)
		if strings.Join(g.toolsHeader, ",") != rows[i].tools || strings.Join(g.askHeader, ",") != rows[i].ask || (rows[i].ask == "") != (g.askHeader == nil) {
			t.Errorf("%q: tools %q, ask %q", rows[i].grants, g.toolsHeader, g.askHeader)
		}
	}
}

func TestHub(t *testing.T) {
	logged(t)
	rows := []struct {
		grants []string
		path   string
		body   string
		status int
		pass   bool
	}{
		{[]string{"git/log"}, "/mcp/servers/git/mcp", named("log"), 200, true},
		{[]string{"git/log"}, "/mcp/servers/git/mcp", named("push"), 200, false},
		{[]string{"git/*"}, "/mcp/servers/git/mcp", named("push"), 200, true},
		{[]string{"ask:git/push"}, "/mcp/servers/git/mcp", named("push"), 200, true},
		{[]string{"git/*"}, "/mcp/servers/files/mcp", named("log"), 403, false},
		{[]string{"git/*", "method:resources/list"}, "/mcp/servers/files/mcp", called("resources/list", "{}"), 403, false},
		{[]string{"git/*", "method:resources/list"}, "/mcp/servers/git/mcp", called("resources/list", "{}"), 200, true},
		{[]string{"git/*"}, "/mcp/servers/git2/mcp", called("tools/list", "{}"), 403, false},
		{[]string{"git/*"}, "/mcp/servers/GIT/mcp", called("tools/list", "{}"), 403, false},
		{[]string{"git/*"}, "/mcp/servers", called("tools/list", "{}"), 403, false},
		{[]string{"git/*"}, "/mcp/status", called("tools/list", "{}"), 403, false},
		{[]string{"*"}, "/mcp/status", called("tools/list", "{}"), 200, true},
		{[]string{"*"}, "/mcp/servers/git/mcp", named("push"), 200, true},
		{[]string{"git/log"}, "/mcp/hub/mcp", named("call_tool"), 200, true},
		{[]string{"git/log"}, "/mcp/hub/mcp", named("log"), 200, false},
		{[]string{"method:ping"}, "/mcp/hub/mcp", named("call_tool"), 403, false},
		{[]string{"method:ping"}, "/mcp/servers/git/mcp", called("ping", "{}"), 403, false},
		{[]string{"git/log"}, "/mcp/servers/git/mcp", named("*"), 200, false},
		{[]string{"git/log"}, "/mcp/servers/git/mcp", named("git/log"), 200, false},
	}
	for i := range rows {
		row := rows[i]
		s := &seen{}
		c := config()
		c.Backend = "hub"
		c.Tokens[0].Tools = row.grants
		h := start(t, c, s)
		rec := do(h, post(row.path, row.body))
		if rec.Code != row.status || (s.calls == 1) != row.pass {
			t.Errorf("%q at %s: status %d %s, the backend was called %d times", row.grants, row.path, rec.Code, rec.Body.String(), s.calls)
		}
		r := post(row.path, "")
		method("GET")(r)
		if rec := do(h, r); row.status == 403 && rec.Code != 403 {
			t.Errorf("%q at %s: a stream gets %d", row.grants, row.path, rec.Code)
		}
	}
}

func TestStripPrefixBefore(t *testing.T) {
	log := logged(t)
	h := start(t, config(), &seen{})
	for i := 0; i < 3; i++ {
		r := post("/sse", readFile)
		r.Header.Set("X-Forwarded-Prefix", "/mcp")
		if rec := do(h, r); rec.Code != 404 {
			t.Errorf("status %d", rec.Code)
		}
	}
	if n := strings.Count(log.String(), "put StripPrefix after"); n != 1 {
		t.Errorf("%d hints: %s", n, log.String())
	}
}

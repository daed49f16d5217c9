package plugin

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// A refusal is tested twice: what spoil does to a good request or configuration
// is refused, and the same request without it, or with the control that without turns
// off, reaches the backend.
type refusal struct {
	desc    string
	spoil   func(*http.Request)
	status  int
	without func(*Config)
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

// manyHeaders have names that are in no list, so that each is looked at.
func manyHeaders(n int) http.Header {
	h := http.Header{}
	for i := 0; i < n; i++ {
		h["X-A"+strconv.Itoa(i)] = []string{"x"}
	}
	return h
}

var refusals = []refusal{
	{"many headers", func(r *http.Request) {
		for key, values := range manyHeaders(300) {
			r.Header[key] = values
		}
	}, 431, nil},
	{"many headers without a token", func(r *http.Request) { // nothing reads them for a stranger
		r.Header = manyHeaders(maxHeaders + 1)
	}, 431, nil},
	{"no more headers than may be, without a token", func(r *http.Request) {
		r.Header = manyHeaders(maxHeaders)
	}, 401, nil},
	{"a long id", payload(strings.Replace(readFile, `"id":1`, `"id":"`+strings.Repeat("1", maxID)+`"`, 1)), 400, nil},
	{"upgrade", header("Upgrade", "websocket"), 400, nil},
	{"a protocol beside WebSocket in a second line", header("Upgrade", "h2c", "WebSocket/13"), 400, nil},
	{"encodings", header("Content-Encoding", "identity", "gzip"), 415, nil},
	{"h2c and another protocol", header("Upgrade", "h2c, websocket"), 400, nil},
	{"method HEAD", method("HEAD"), 405, nil},
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
	{"Mcp-Name of one of two names", both(payload(called("resources/read", `{"name":"a","uri":"file:///b"}`)), header("Mcp-Name", "a")), 400, nil},
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
	{"subscription behind much else", payload(called("subscriptions/listen", `{"a":[`+strings.Repeat("0,", 200010)+`0],"notifications":{"resourceSubscriptions":["file:///a"]}}`)), 200, nil},
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
		if row.without == nil {
			continue
		}
		row.without(c)
		r = post("/mcp/mcp", readFile)
		row.spoil(r)
		if do(start(t, c, s), r); s.calls != 2 {
			t.Errorf("%s: with the control off it does not reach the backend", row.desc)
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
		{"charset without a hyphen", header("Content-Type", "application/json;charset=utf8")},
		{"an empty charset", header("Content-Type", `application/json; charset=""`)},
		{"matching Mcp headers", both(header("Mcp-Method", "tools/call"), header("Mcp-Name", "read_file"))},
		{"Mcp-Name in Base64", header("Mcp-Name", "=?base64?cmVhZF9maWxl?=")},
		{"a chunked body", chunked},
		{"initialize", payload(called("initialize", "{}"))},
		{"tools/list", payload(called("tools/list", "{}"))},
		{"server/discover", payload(called("server/discover", "{}"))},
		{"a notification", payload(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)},
		{"a response", payload(`{"jsonrpc":"2.0","id":3,"result":{}}`)},
		{"a subscription", payload(called("subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`))},
		{"GET", method("GET")}, {"DELETE", method("DELETE")},
		{"an offer of h2c", both(header("Upgrade", "h2c"), header("Http2-Settings", "AAMAAABk"))},
		{"an offer of TLS and HTTP/2", header("Upgrade", "TLS/1.2, HTTP/2.0")},
		{"two offers", header("Upgrade", "h2c", "HTTP/3.0")},
		{"an encoding that is none", header("Content-Encoding", "Identity")},
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

// unread is a body that must not be read.
type unread struct{ t *testing.T }

func (u *unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, nil
}

func (u *unread) Close() error { return nil }

// Nobody without a token makes the edge read a body.
func TestBodyIsNotReadBeforeTheToken(t *testing.T) {
	logged(t)
	h := start(t, config(), &seen{})
	for _, spoil := range []func(*http.Request){header("Authorization"), header("Authorization", "Bearer "+otherToken),
		header("Origin", "https://evil.example"), header("Content-Type", "text/plain")} {
		r := post("/mcp/mcp", readFile)
		r.Body = &unread{t}
		spoil(r)
		if rec := do(h, r); rec.Code == 200 {
			t.Errorf("status %d", rec.Code)
		}
	}
	r := post("/mcp/mcp", readFile)
	r.Body = &unread{t}
	r.ContentLength = 8<<20 + 1
	if rec := do(h, r); rec.Code != 413 {
		t.Errorf("a length over the cap: status %d", rec.Code)
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
	r := post("/sse", readFile)
	r.Header.Set("X-Forwarded-Prefix", "/mcp")
	if rec := do(h, r); rec.Code != 404 {
		t.Errorf("status %d", rec.Code)
	}
	if !strings.Contains(log.String(), "put StripPrefix after") {
		t.Errorf("no hint: %s", log.String())
	}
}

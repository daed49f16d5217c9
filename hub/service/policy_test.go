package service_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// names are the tools of a tools/list answer.
func names(t *testing.T, raw string) (list []string) {
	t.Helper()
	var m struct {
		Result struct{ Tools []struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(raw), &m); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	for _, tool := range m.Result.Tools {
		list = append(list, tool.Name)
	}
	return list
}

// A grant is what its holder sees and may call, in every era.
func TestGrants(t *testing.T) {
	for _, c := range []struct {
		grants string
		sees   []string
	}{
		{"s/echo", []string{"echo"}},
		{"s/echo,other/*", []string{"echo"}},
		{"s/*", []string{"echo", "wait", "ask"}},
		{"*", []string{"echo", "wait", "ask"}},
		{"s/wait,echo", []string{"wait"}}, // without a slash it is a tool of the sandbox
	} {
		for _, transport := range allTransports {
			t.Run(c.grants+" "+transport, func(t *testing.T) {
				_, entry := listen(t, "unix")
				b := start(t, map[string]string{"s": entry}, nil)
				client := b.dial(transport, "s", as("token:poke", c.grants))
				if got := names(t, client.call("1", "tools/list", `{}`)); !slices.Equal(got, c.sees) {
					t.Errorf("sees %v, not %v", got, c.sees)
				}
				got := client.call("2", "tools/call", `{"name":"echo","arguments":{"x":1}}`)
				if allowed := slices.Contains(c.sees, "echo"); allowed != strings.Contains(got,
					`"structuredContent":{"x":1}`) {
					t.Errorf("echo allowed: %v, and the answer is %s", allowed, got)
				} else if !allowed && !strings.Contains(got, `"code":-32602`) {
					t.Errorf("the refusal is %s", got)
				}
			})
		}
	}
}

// A server of which nothing is granted answers 403 and is not woken; the same
// request with a grant is served.
func TestForeignServerIsNotWoken(t *testing.T) {
	l, entry := listen(t, "unix")
	b := start(t, map[string]string{"s": entry}, nil)
	hello := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	for _, grants := range []string{"", "echo", "other/*", "s2/echo", "s/"} {
		for _, path := range []string{"/servers/s/mcp", "/servers/s/sse", "/servers/none/mcp"} {
			resp := b.do("POST", path, hello, as("token:poke", grants))
			resp.Body.Close()
			if resp.StatusCode != http.StatusForbidden {
				t.Errorf("%q at %s: %s", grants, path, resp.Status)
			}
		}
	}
	if l.count() != 0 {
		t.Errorf("the server was woken %d times", l.count())
	}
	resp := b.do("POST", "/servers/s/mcp", hello, as("token:poke", "s/echo"))
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || l.count() != 1 {
		t.Errorf("with a grant: %s, woken %d times", resp.Status, l.count())
	}
}

// A session answers only to the principal that opened it.
func TestSessionsBelongToTheirPrincipal(t *testing.T) {
	_, entry := listen(t, "unix")
	b := start(t, map[string]string{"s": entry}, nil)
	c := b.dial("mcp", "s", as("token:alice", "*")).(*session)
	ping := `{"jsonrpc":"2.0","id":9,"method":"ping"}`
	for who, want := range map[string]int{"token:alice": 200, "token:mallory": 403} {
		h := as(who, "*")
		h.Set("Mcp-Session-Id", c.header.Get("Mcp-Session-Id"))
		resp := b.do("POST", "/servers/s/mcp", ping, h)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %s", who, resp.Status)
		}
	}
	s := b.dial("sse", "s", as("token:alice", "*")).(*session)
	for who, want := range map[string]int{"token:alice": 202, "token:mallory": 403} {
		resp := b.do("POST", s.path, ping, as(who, "*"))
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s over SSE: %s", who, resp.Status)
		}
	}
}

// Without the backend's token, from a foreign Host or Origin, or
// with half an identity nobody gets in.
func TestWall(t *testing.T) {
	_, entry := listen(t, "unix")
	b := start(t, map[string]string{"s": entry}, nil)
	for what, c := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"right":    {func(*http.Request) {}, 200},
		"no token": {func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		"wrong token": {func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+strings.Repeat("x", 32)) },
			401},
		"foreign Host":  {func(r *http.Request) { r.Host = "evil.example" }, 403},
		"Origin":        {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403},
		"half identity": {func(r *http.Request) { r.Header.Set("X-Sallyport-Tools", "*") }, 403},
	} {
		req, _ := http.NewRequestWithContext(t.Context(), "GET", b.URL+"/status", nil)
		req.Header.Set("Authorization", "Bearer "+token)
		c.change(req)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.want || (c.want == 401) != (resp.Header.Get("WWW-Authenticate") == "Bearer") {
			t.Errorf("%s: %s, WWW-Authenticate %q", what, resp.Status, resp.Header.Get("WWW-Authenticate"))
		}
	}
}

// A version that no client speaks must not take a place in the snapshot: the
// next client would have to wake the server.
func TestInventedVersionsDoNotFillTheSnapshot(t *testing.T) {
	_, entry := listen(t, "unix")
	b := start(t, map[string]string{"s": entry}, nil)
	for _, version := range []string{"a", "b", "c", "d", "2025-06-18"} {
		resp := b.do("POST", "/servers/s/mcp",
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{}}}`, nil)
		resp.Body.Close()
	}
	snapshot, err := os.ReadFile(b.state + "/snapshots/s.json")
	if err != nil || !strings.Contains(string(snapshot), `"2025-06-18":`) ||
		strings.Contains(string(snapshot), `"a":`) {
		t.Errorf("%v: %s", err, snapshot)
	}
}

// The aggregate shows and calls what the token may, and nothing else.
func TestAggregate(t *testing.T) {
	_, one := listen(t, "unix")
	_, two := listen(t, "tcp")
	hidden := strings.Replace(two, "{", `{"hub":false,`, 1)
	b := start(t, map[string]string{"one": one, "two": two, "hidden": hidden,
		"bad": `{"type":"docker","image":"img","privileged":true}`}, nil)
	for _, transport := range []string{"mcp", "stateless"} {
		for _, c := range []struct{ grants, tool, args, want string }{
			{"*", "list_servers", `{}`, `"name":"two"`},
			{"one/echo", "list_servers", `{}`, `{"servers":[{"name":"one",`},
			{"*", "list_tools", `{"server":"hidden"}`, "there is no server"},
			{"one/echo", "list_tools", `{"server":"two"}`, "there is no server"},
			{"one/echo", "list_tools", `{"server":"one"}`, `"total":1`},
			{"*", "list_tools", `{"server":"one"}`, `"total":3`},
			{"one/echo", "get_tool_schema", `{"server":"one","tool":"echo"}`, `"x-vendor":12345678901234567890`},
			{"one/echo", "get_tool_schema", `{"server":"one","tool":"wait"}`, "has no tool"},
			{"one/echo", "call_tool", `{"server":"one","tool":"echo","arguments":{"n":12345678901234567890}}`,
				`"structuredContent":{"n":12345678901234567890}`},
			{"one/echo", "call_tool", `{"server":"one","tool":"log","arguments":{}}`, "has no grant for one/log"},
			{"one/echo", "call_tool", `{"server":"two","tool":"echo","arguments":{}}`, "there is no server"},
			{"one/echo", "sleep_server", `{"server":"one"}`, "may not stop"},
			{"one/*", "sleep_server", `{"server":"one"}`, `"state":"asleep"`},
			{"one/*", "wake_server", `{"server":"one"}`, `"state":"running"`},
			{"*", "list_tools", `{"server":"one","offset":"2"}`, `"total":3`},
			{"*", "list_tools", `{"server":"one","offset":1.0}`, `"total":3`},
			{"*", "list_tools", `{"server":"one","offset":null}`, `"total":3`},
			{"*", "list_tools", `{"server":"one","offset":"two"}`, "must be a whole number"},
			{"*", "list_tools", `{"server":"one","offset":-1}`, "must be a whole number"},
			{"one/echo", "call_tool", `{"server":"one","tool":"echo","arguments":"{\"n\":12345678901234567890}"}`,
				`"structuredContent":{"n":12345678901234567890}`},
			{"one/echo", "call_tool", `{"server":"one","tool":"echo","arguments":"n=1"}`, "must be a JSON object"},
			{"one/echo", "call_tool", deep(200, true), "nested deeper than 128 levels"},
			{"one/echo", "call_tool", deep(100, true), `"structuredContent":{"n":[[`},
			{"one/echo", "call_tool", deep(100, false), `"structuredContent":{"n":[[`},
			{"one/echo", "call_tool", `{"server":"one","tool":"echo","arguments":[1]}`, "must be a JSON object"},
			{"*", "list_servers", `{}`, `"state":"disabled"`},
			{"one/*", "list_servers", `{}`, `"state":"`},
			{"*", "call_tool", `{"server":"bad","tool":"x"}`, "the server bad is disabled"},
			{"one/*", "no_such_tool", `{"server":"one"}`, "-32602"},
		} {
			client := b.dial(transport, "", as("token:poke", c.grants))
			if got := client.call("1", "tools/call",
				`{"name":"`+c.tool+`","arguments":`+c.args+`}`); !strings.Contains(got,
				strings.ReplaceAll(c.want, `"`, `"`)) && !strings.Contains(got, strings.ReplaceAll(c.want, `"`, `\"`)) {
				t.Errorf("%s %s with %s: %s", transport, c.tool, c.grants, got)
			}
		}
		if got := names(t, b.dial(transport, "", as("token:poke", "one/echo")).call("1", "tools/list",
			`{}`)); len(got) != 6 {
			t.Errorf("the aggregate lists %v", got)
		}
	}
	resp := b.do("POST", "/hub/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+deep(200, false)+`}`,
		as("token:poke", "*"))
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusBadRequest ||
		!strings.Contains(string(text), "nested deeper than 128 levels") {
		t.Errorf("200 levels: %s %s", resp.Status, text)
	}
	resp.Body.Close()
	resp = b.do("POST", "/hub/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, as("token:poke", "read_file"))
	if resp.Body.Close(); resp.StatusCode != http.StatusForbidden {
		t.Errorf("without any server's grant: %s", resp.Status)
	}
}

// A server that refuses the hub's greeting has no empty list of tools: the aggregate says
// in its words why there is none.
func TestRefusedGreetingIsNoEmptyList(t *testing.T) {
	l, entry := listen(t, "unix")
	l.be("modern")
	_, usual := listen(t, "unix")
	b := start(t, map[string]string{"one": entry, "usual": usual}, nil)
	client := b.dial("mcp", "", as("token:poke", "*"))
	for server, want := range map[string]string{"one": "only 2026-07-28", "usual": `\"total\":3`} {
		for range 2 {
			got := client.call("1", "tools/call", `{"name":"list_tools","arguments":{"server":"`+server+`"}}`)
			if !strings.Contains(got, want) {
				t.Errorf("%s: %s", server, got)
			}
		}
	}
}

// deep is a call with arguments of n levels, written as a string or as an object.
func deep(n int, quoted bool) string {
	arguments := `{"n":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
	if quoted {
		arguments = strconv.Quote(arguments)
	}
	return `{"server":"one","tool":"echo","arguments":` + arguments + `}`
}

// A call without an id is no notification: nobody would answer for it.
func TestCallWithoutIDIsRefused(t *testing.T) {
	l, entry := listen(t, "unix")
	b := start(t, map[string]string{"s": entry}, nil)
	c := b.dial("mcp", "s", nil).(*session)
	c.call("1", "tools/call", `{"name":"echo","arguments":{}}`)
	for raw, want := range map[string]int{
		`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"log","arguments":{}}}`: 400,
		`{"jsonrpc":"2.0","method":"notifications/vendor"}`:                              202,
	} {
		resp := b.do("POST", c.path, raw, c.header.Clone())
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %s", raw, resp.Status)
		}
	}
	eventually(t, "the notification arrives", func() bool { return l.heard("notifications/vendor") })
}

// Who cancels or leaves ends the own call through the aggregate, and not
// another client's with the same id and the same token.
func TestAggregateCancels(t *testing.T) {
	l, entry := listen(t, "unix")
	b := start(t, map[string]string{"s": entry}, nil)
	const waiting = `{"_meta":{"progressToken":1},"name":"call_tool","arguments":{"server":"s","tool":"wait"}}`
	one, other := b.dial("mcp", "", as("token:poke", "*")), b.dial("mcp", "", as("token:poke", "*"))
	for _, c := range []client{one, other} {
		go c.call("5", "tools/call", waiting)
		c.next() // its progress
	}
	one.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":6}}`)
	one.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
	eventually(t, "the server hears of the cancellation", func() bool { return l.heard("notifications/cancelled") })
	for range 3 {
		other.next()
	}
	if n := l.times("notifications/cancelled"); n != 1 {
		t.Errorf("%d calls were canceled", n)
	}
	other.close()
	eventually(t, "the server hears that the other left",
		func() bool { return l.times("notifications/cancelled") == 2 })
	stateless := b.dial("stateless", "", as("token:poke", "*"))
	go stateless.call("5", "tools/call", `{"name":"call_tool","arguments":{"server":"s","tool":"wait"}}`)
	eventually(t, "its call runs", func() bool { return l.times("tools/call") == 3 })
	stateless.close()
	eventually(t, "the server hears that it left", func() bool { return l.times("notifications/cancelled") == 3 })
}

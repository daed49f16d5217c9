package serve_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestGrants(t *testing.T) {
	eachTransport(t, func(t *testing.T, transport string) {
		for _, c := range []struct {
			tools  string
			listed string
			runs   bool // read_file
		}{
			{"*", "read_file,run_command,write_file", true},
			{"read_file", "read_file", true},
			{"write_file, read_file", "read_file,write_file", true},
			{"run_command", "run_command", false},
			{"server/read_file,server/*", "", false},
			{"Read_file,read_fil,read_file2", "", false},
			{"", "", false},
		} {
			s := start(t, nil)
			session, _ := connect(t, s, transport, as("token:poke", c.tools))
			list, err := session.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := names(list.Tools); got != c.listed {
				t.Errorf("with %q the list is %q, want %q", c.tools, got, c.listed)
			}
			r, err := call(t, session, "read_file", map[string]any{"text": "x"})
			if ran := err == nil && !r.IsError; ran != c.runs {
				t.Errorf("with %q read_file ran: %v, want %v (%v)", c.tools, ran, c.runs, err)
			}
			if !c.runs && (err == nil || !strings.Contains(err.Error(), `"read_file" is not granted to token:poke`) || code(err) != -32602) {
				t.Errorf("with %q the refusal is %v", c.tools, err)
			}
			want := map[bool]string{true: `"verdict":"ok"`, false: `"verdict":"not_granted"`}[c.runs]
			if a := s.audit.String(); !strings.Contains(a, want) {
				t.Errorf("with %q the audit lacks %s: %s", c.tools, want, a)
			}
		}
	})
}

// What a client calls a tool does not fill the log.
func TestLongToolName(t *testing.T) {
	s := start(t, nil)
	session, _ := connect(t, s, "2025-11-25", as("token:poke", "read_file"))
	if _, err := call(t, session, strings.Repeat("é", 100_000), nil); code(err) != -32602 || len(err.Error()) > 1000 {
		t.Errorf("the answer has %d bytes", len(err.Error()))
	}
	if len(s.audit.String())+len(s.log.String()) > 2000 || !strings.Contains(s.audit.String(), "éé...") {
		t.Errorf("audit %s\nlog %s", s.audit, s.log)
	}
}

func names(tools []*mcp.Tool) string {
	var list []string
	for _, tool := range tools {
		list = append(list, tool.Name)
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}

// The headers of the request that carries the message decide, not those of the
// one that opened the session.
func TestGrantsOfTheMessageDecide(t *testing.T) {
	for _, transport := range []string{"sse", "2025-11-25"} {
		t.Run(transport, func(t *testing.T) {
			s := start(t, nil)
			h := &changing{h: as("token:poke", "*")}
			session, _ := connectWith(t, s, transport, h)
			if r, err := call(t, session, "read_file", nil); err != nil || r.IsError {
				t.Fatalf("before: %v %v", r, err)
			}
			h.set(as("token:poke", "write_file"))
			if _, err := call(t, session, "read_file", nil); code(err) != -32602 {
				t.Errorf("after the grant was taken away: %v", err)
			}
			if list, err := session.ListTools(t.Context(), nil); err != nil || names(list.Tools) != "write_file" {
				t.Errorf("the list afterwards: %v %v", list, err)
			}
			h.set(as("token:poke", "read_file"))
			if r, err := call(t, session, "read_file", nil); err != nil || r.IsError {
				t.Errorf("after it was given back: %v %v", r, err)
			}
		})
	}
}

// changing adds headers that may change between requests.
type changing struct {
	mu sync.Mutex
	h  http.Header
}

func (c *changing) set(h http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.h = h
}

func (c *changing) get() http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.h
}

// Lists depend on the token, so no shared cache may keep them.
func TestCacheScope(t *testing.T) {
	s := start(t, nil)
	for _, method := range []string{"tools/list", "server/discover"} {
		resp, body := modernCall(t, s, as("token:poke", "*"), method, "", "")
		if resp.StatusCode != 200 || !strings.Contains(body, `"cacheScope":"private"`) {
			t.Errorf("%s: %d %s", method, resp.StatusCode, body)
		}
	}
}

// A client may encode any Mcp-Name, and the body still has to say the same.
func TestEncodedName(t *testing.T) {
	s := start(t, nil)
	for name, status := range map[string]int{
		"read_file":                   200,
		"=?base64?cmVhZF9maWxl?=":     200,
		"=?base64?d3JpdGVfZmlsZQ==?=": 400, // write_file
		"=?base64?not base64?=":       400,
		"=?base64?cmVhZF9maWxl":       400,
	} {
		resp, body := modernCall(t, s, as("", ""), "tools/call", name, `"name":"read_file","arguments":{"text":"found"},`)
		if resp.StatusCode != status || (status == 200) != strings.Contains(body, "found") {
			t.Errorf("%s: got %d %s, want %d", name, resp.StatusCode, body, status)
		}
	}
}

// modernCall sends one request of the stateless protocol; params are its
// parameters beside _meta, each with a comma behind it.
func modernCall(t *testing.T, s *server, h http.Header, method, name, params string) (*http.Response, string) {
	t.Helper()
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}`
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + meta + `}}`
	if !json.Valid([]byte(body)) {
		t.Fatalf("the test made a bad body: %s", body)
	}
	h = jsonHeader(h, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method)
	if name != "" {
		h.Set("Mcp-Name", name)
	}
	return send(t, "POST", s.URL+"/mcp", h, body)
}

package serve_test

import (
	"net/http"
	"strings"
	"testing"
)

// calls are parameters of tools/call as clients, models and attackers write them.
var calls = []string{
	`{"name":"read_file","arguments":{"text":"a<b>&\u2028\"\u0000","size":3}}`, `{"name":"read_file"}`, `{"name":"read_file","arguments":{}}`,
	`{"name":"read_file","arguments":null}`, `{"name":"read_file","arguments":[]}`, `{"name":"read_file","arguments":"x"}`, `{"name":"read_file","arguments":{"text":5}}`,
	`{"name":"read_file","arguments":{"text":"fail"}}`, `{"name":"read_file","arguments":{"text":"protocol error"}}`, `{"name":"read_file","arguments":{"Text":"case"}}`,
	`{"name":"no_such_tool","arguments":{}}`, `{"name":"","arguments":{}}`, `{"arguments":{}}`, `{}`, `{"name":5}`, `{"name":null}`, `{"name":"write_file","arguments":{}}`,
	`{"name":"read_\u0066ile","arguments":{"text":"x"},"_meta":{"progressToken":7}}`, `{"name":"read_file","_meta":{"progressToken":"p","x":[1]},"arguments":{"text":"x"}}`,
	`{"name":"read_file","_meta":{"progressToken":null},"arguments":{"text":"x"}}`, `{"name":"read_file","_meta":null}`, `{"name":"read_file","_meta":5}`, `{"name":"read_file","more":1}`,
	`{"name":"read_file","requestState":"x"}`, `{"name":"read_file","inputResponses":{}}`, `[]`, `null`, `"x"`,
}

// pair are two servers that differ in one thing: whether calls go through the
// SDK's connection.
type pair struct {
	a, b   *server
	ha, hb http.Header
}

func newPair(t *testing.T) pair {
	t.Helper()
	p := pair{a: start(t, nil), b: start(t, nil)}
	p.b.Indirect()
	p.ha, p.hb = open(t, p.a, as("token:x", "read_file,write_file,no_such_tool")), open(t, p.b, as("token:x", "read_file,write_file,no_such_tool"))
	return p
}

func (p pair) compare(t *testing.T, params string) {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1.50,"method":"tools/call","params":` + params + `}`
	ra, a := send(t, "POST", p.a.URL+"/mcp", p.ha, body)
	rb, b := send(t, "POST", p.b.URL+"/mcp", p.hb, body)
	if a != b || ra.StatusCode != rb.StatusCode {
		t.Errorf("%s:\n%d %s\nthrough the SDK\n%d %s", params, ra.StatusCode, a, rb.StatusCode, b)
	}
}

// A call that is read by us gets the bytes that the SDK's own reading gets.
func TestDirectCallsAreTheSDKs(t *testing.T) {
	p := newPair(t)
	for _, params := range calls {
		p.compare(t, params)
	}
	if log := p.a.log.String() + p.b.log.String(); strings.Count(log, `"panic":"as asked"`) != 2 {
		t.Errorf("the panicking tool was not called on both ways: %s", log)
	}
}

func FuzzDirectCalls(f *testing.F) {
	for _, params := range calls {
		f.Add(params)
	}
	f.Fuzz(func(t *testing.T, params string) {
		if strings.Contains(params, "write_file") || strings.Contains(params, "run_command") || len(params) > 1<<16 {
			return
		}
		newPair(t).compare(t, params)
	})
}

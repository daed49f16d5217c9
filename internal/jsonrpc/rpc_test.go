package jsonrpc_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
)

func TestWhatIsRefused(t *testing.T) {
	for _, raw := range []string{
		``, `null`, `"x"`, `{}`, `[]`, `[{"jsonrpc":"2.0","method":"x"}]`, `{"jsonrpc":"2.0","method":"x"} {}`,
		`{"jsonrpc":"2.0","method":"x"`,
		`{"jsonrpc":"1.0","method":"x"}`, `{"method":"x"}`, `{"jsonrpc":"2.0","id":1}`,
		`{"jsonrpc":"2.0","id":{},"method":"x"}`, `{"jsonrpc":"2.0","id":null,"method":"x"}`,
		`{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, `{"jsonrpc":"2.0","result":{}}`,
		`{"jsonrpc":"2.0","method":1}`, `{"jsonrpc":"2.0","method":""}`,
		`{"jsonrpc":"2.0","method":"x","method":"y"}`, `{"jsonrpc":"2.0","method":"x","Method":"y"}`,
		`{"jsonrpc":"2.0","method":"x","\u006dethod":"y"}`,
		`{"jsonrpc":"2.0","method":"x","ID":1}`, `{"jsonrpc":"2.0","method":"x","params":{"name":"a","name":"b"}}`,
		`{"jsonrpc":"2.0","method":"x","params":{"Name":"a"}}`,
		`{"jsonrpc":"2.0","method":"x","params":{"_meta":{"progressToken":1,"progressToken":2}}}`,
		`{"jsonrpc":"2.0","method":"x","re\u017fult":{}}`,
	} {
		if m, err := jsonrpc.Parse([]byte(raw)); err == nil {
			t.Errorf("accepted %s as %q", raw, m.Method)
		}
	}
}

func TestFindAndSplice(t *testing.T) {
	raw := " {\"jsonrpc\": \"2.0\",\r\n \"id\": 12345678901234567890, \"method\": \"tools/call\", \"params\": " +
		"{\"n\\u0061me\": \"a\\\"}\", \"_meta\": {\"x\": [1, {\"progressToken\": 5}], \"progressToken\": \"t\"}, " +
		"\"arguments\": {\"v\": 1.50e3}}} "
	m, err := jsonrpc.Parse([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Text(m.Param("name")); got != `a"}` {
		t.Errorf("name %q", got)
	}
	if string(m.ID()) != "12345678901234567890" || !m.IsRequest() || m.IsResponse() {
		t.Errorf("id %s", m.ID())
	}
	got := jsonrpc.Splice(m.Raw, jsonrpc.Edit{At: m.Param("_meta", "progressToken"), New: []byte("7")},
		jsonrpc.Edit{At: m.IDSpan(), New: []byte("1")}, jsonrpc.Edit{At: m.Param("none"), New: []byte("!")})
	want := `{"jsonrpc": "2.0",   "id": 1, "method": "tools/call", "params": {"n\u0061me": "a\"}", "_meta": {"x": ` +
		`[1, {"progressToken": 5}], "progressToken": 7}, "arguments": {"v": 1.50e3}}}`
	if string(got) != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

// Whatever is accepted stays a message of the same meaning when its id is
// exchanged and put back, and what it says agrees with encoding/json.
func FuzzParse(f *testing.F) {
	for _, raw := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":"p"},"arguments":{"a":[1,2,{"b":"\\\""}]}}}`,
		`{"jsonrpc":"2.0","id":"a","result":{"tools":[{"name":"\u00e4"},{}],"nextCursor":""}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"x"}}`,
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := jsonrpc.Parse(raw)
		if err != nil {
			return
		}
		var plain map[string]json.RawMessage
		if err := json.Unmarshal(raw, &plain); err != nil {
			t.Fatalf("accepted what encoding/json refuses: %v", err)
		}
		if method := ""; json.Unmarshal(plain["method"], &method) == nil && method != m.Method {
			t.Fatalf("method %q, encoding/json says %q", m.Method, method)
		}
		for _, at := range m.Elements(m.Find(m.Result(), "tools")) {
			if !json.Valid(m.Bytes(at)) {
				t.Fatalf("an element is %q", m.Bytes(at))
			}
		}
		if m.ID() == nil {
			return
		}
		other, err := jsonrpc.Parse(jsonrpc.Splice(m.Raw, jsonrpc.Edit{At: m.IDSpan(), New: []byte(`"other"`)}))
		if err != nil || string(other.ID()) != `"other"` {
			t.Fatalf("with another id: %v", err)
		}
		if back := jsonrpc.Splice(other.Raw, jsonrpc.Edit{At: other.IDSpan(), New: m.ID()}); !bytes.Equal(back, m.Raw) {
			t.Fatalf("came back as %s", back)
		}
	})
}

// Levels are counted outside strings, whatever a string holds.
func TestDepthCountsLevels(t *testing.T) {
	nest := func(n int, open, inner, end string) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
	}
	for raw, want := range map[string]bool{
		nest(128, "[", "", "]"): false, nest(129, "[", "", "]"): true, nest(129, `{"a":`, "1", "}"): true,
		nest(128, `{"a":`, `"[[[{{\"\\"`, "}"): false,
		`["` + strings.Repeat("[", 500) + `"]`: false, `["\"` + strings.Repeat("[", 500) + `\\",` +
			nest(128, "[", "", "]") + "]": true,
		"[" + strings.Repeat("[],", 500) + "{}]": false, `"x"`: false,
	} {
		if got := jsonrpc.TooDeep([]byte(raw)); got != want {
			t.Errorf("%.60s…: %t", raw, got)
		}
	}
}

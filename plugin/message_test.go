package plugin

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// vector reads one file of testdata/jsonrpc.
func vector(t *testing.T, path string) (map[string]string, []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, payload, _ := strings.Cut(string(data), "\n\n")
	header := map[string]string{}
	for _, line := range strings.Split(head, "\n") {
		key, value, _ := strings.Cut(line, ":")
		header[key] = strings.TrimSpace(value)
	}
	if header["Payload"] == "quoted" {
		if payload, err = strconv.Unquote(payload); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	return header, []byte(payload)
}

func TestVectors(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("..", "testdata", "jsonrpc", "*.txt"))
	if err != nil || len(paths) < 40 {
		t.Fatalf("%d vectors, %v", len(paths), err)
	}
	for _, path := range paths {
		want, body := vector(t, path)
		m, bad := parseMessage(body)
		got := "accept"
		if bad != nil {
			got = "refuse " + strconv.Itoa(bad.code)
		}
		if got != want["Verdict"] {
			t.Errorf("%s (%s): %s, want %s", path, want["Story"], got, want["Verdict"])
			continue
		}
		if bad == nil && (m.method != want["Method"] || m.tool != want["Tool"]) {
			t.Errorf("%s: read method %q and tool %q", path, m.method, m.tool)
		}
		if want["Resources"] != "" && !m.resources {
			t.Errorf("%s: the subscription to resources is not seen", path)
		}
		c := &call{}
		if fastCall(c, body) && (bad != nil || !sameMessage(c.message, m)) {
			t.Errorf("%s: as a plain call it is %+v, else %+v", path, c.message, m)
		}
	}
}

// The calls of the SDKs are read the short way, to the same end.
func TestPlainCalls(t *testing.T) {
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"a"}}}`,
		`{"jsonrpc":"2.0","id":"a-1_B","method":"tools/call","params":{"name":"a.b","arguments":{"x":{"y":["{",1]}}}}`,
		`{"method":"tools/call","params":{"name":"read_file","arguments":{"path":"é\"},"}},"jsonrpc":"2.0","id":12}`,
		`{"method":"tools/call","params":{"name":"read_file","arguments":[]},"jsonrpc":"2.0","id":0}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"deep","arguments":` + strings.Repeat("[", maxDepth-2) + strings.Repeat("]", maxDepth-2) + `}}`,
		`{"method":"tools/call","params":{"name":"read_file","arguments":{"a":"},\"jsonrpc\":\"2.0\",\"id\":7}"}},"jsonrpc":"2.0","id":"x"}`,
	} {
		c := &call{}
		m, bad := parseMessage([]byte(body))
		if !fastCall(c, []byte(body)) || bad != nil || !sameMessage(c.message, m) {
			t.Errorf("%s: %+v, else %+v (%v)", body, c.message, m, bad)
		}
	}
}

// What only looks like a plain call is left to the whole parser.
func TestNotPlainCalls(t *testing.T) {
	head := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":`
	late := `{"method":"tools/call","params":{"name":"read_file","arguments":`
	for _, body := range []string{
		``, `{}`, head, head + `{}`, head + `{}}`, head + `1`, head + `}}`, head + `{}}} `, head + `{}}}}`, head + `{}},"id":2}`,
		head + `{},"name":"run_command"}}`, head + `{}},"params":{"name":"run_command"}}`, head + `{},"_meta":{}}}`,
		head + `{}}},"jsonrpc":"2.0","id":2}`, head + "{\"a\":\"\xff\"}}}", head + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}}`,
		late + `{}}}`, late + `{}},"jsonrpc":"2.0"}`, late + `{}},"jsonrpc":"2.0","id":1,"id":2}`, late + `{}},"jsonrpc":"2.0","id":null}`,
		late + `{},"name":"x"},"jsonrpc":"2.0","id":1}`, late + `{}},"jsonrpc":"2.0","id":1}}`, late + `{}},"method":"x","jsonrpc":"2.0","id":1}`,
		strings.Replace(head, `"id":1`, `"id":007`, 1) + `{}}}`, late + `{}},"jsonrpc":"2.0","id":00}`,
		head + strings.Repeat("[", maxDepth-1) + strings.Repeat("]", maxDepth-1) + `}}`,
		strings.Replace(head, `"id":1`, `"id":1.5`, 1) + `{}}}`, strings.Replace(head, `read_file`, `read\u005ffile`, 1) + `{}}}`,
		strings.Replace(head, `"name"`, `"Name"`, 1) + `{}}}`, strings.Replace(head, `,"id":1`, ``, 1) + `{}}}`,
	} {
		if c := (&call{}); fastCall(c, []byte(body)) {
			t.Errorf("%s is read as a plain call: %+v", body, c.message)
		}
	}
}

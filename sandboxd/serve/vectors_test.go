package serve

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// The edge decides on what its own parser reads; the server acts on what the
// SDK's parser reads. Every body that the edge accepts must be the same to both.
func TestSDKReadsWhatTheEdgeAccepts(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("..", "..", "testdata", "jsonrpc", "*.txt"))
	if err != nil || len(paths) < 40 {
		t.Fatalf("%d vectors, %v", len(paths), err)
	}
	accepted := 0
	for _, path := range paths {
		want, body := readVector(t, path)
		if want["Verdict"] != "accept" {
			continue
		}
		accepted++
		m, err := jsonrpc.DecodeMessage(body)
		if err != nil {
			t.Errorf("%s: the edge accepts it, the SDK says %v", path, err)
			continue
		}
		method, tool := "", ""
		if r, ok := m.(*jsonrpc.Request); ok {
			method = r.Method
			var params struct{ Name string }
			if method == "tools/call" && json.Unmarshal(r.Params, &params) == nil {
				tool = params.Name
			}
		}
		if method != want["Method"] || tool != want["Tool"] {
			t.Errorf("%s: the edge reads method %q and tool %q, the SDK %q and %q", path, want["Method"], want["Tool"], method, tool)
		}
	}
	if accepted < 10 {
		t.Errorf("only %d vectors are accepted", accepted)
	}
}

func readVector(t *testing.T, path string) (map[string]string, []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, body, _ := strings.Cut(string(data), "\n\n")
	fields := map[string]string{}
	for line := range strings.Lines(head) {
		key, value, _ := strings.Cut(line, ":")
		fields[key] = strings.TrimSpace(value)
	}
	if fields["Payload"] == "quoted" {
		if body, err = strconv.Unquote(body); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	return fields, []byte(body)
}

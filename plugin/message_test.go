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
	}
}

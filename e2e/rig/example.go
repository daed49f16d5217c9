package rig

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Examples returns the fenced blocks of one language in a page of docs/, with
// the hash of a token in place of the example's.
func Examples(t testing.TB, page, language, token string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(Root(t), "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(token))
	text := exampleHash.ReplaceAllString(string(data), hex.EncodeToString(sum[:]))
	var found []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	if len(found) == 0 {
		t.Fatalf("docs/%s has no example in %s", page, language)
	}
	return found
}

var exampleHash = regexp.MustCompile(`\b[0-9a-f]{64}\b`)

// CheckExample calls through the example of the plugin's page: read_file is
// granted, run_command is not, and a wrong token gets nothing.
func CheckExample(t testing.TB, url, token string) {
	t.Helper()
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":{}}}`
	for _, row := range []struct {
		token, body string
		status      int
		says        string
	}{
		{token, call, 200, "the backend at /mcp"},
		{token, strings.Replace(call, "read_file", "run_command", 1), 403, "not granted to token:assistant"},
		{token + "x", call, 401, "not known"},
	} {
		req, _ := http.NewRequest("POST", url, strings.NewReader(row.body))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+row.token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != row.status || !strings.Contains(string(answer), row.says) {
			t.Errorf("status %d, want %d with %q: %s", resp.StatusCode, row.status, row.says, answer)
		}
	}
}

// ServeExample is the server behind the examples: it says where it was reached.
func ServeExample(w http.ResponseWriter, r *http.Request) {
	io.WriteString(w, "the backend at "+r.URL.Path)
}

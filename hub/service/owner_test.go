package service

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestSecretsOfTheHub(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers":{"a":{"type":"http","url":"https://x/${PART}","headers":{"K":"Bearer ${API_KEY:-none}"}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("API_KEY", "secret-of-the-server")
	t.Setenv("PART", "part-of-the-url")
	set := Settings{ServersFile: file}
	set.Token = "the-hubs-token"
	for _, want := range []string{"the-hubs-token", "secret-of-the-server", "part-of-the-url"} {
		if !slices.Contains(set.secrets(), want) {
			t.Errorf("%s would be recorded", want)
		}
	}
}

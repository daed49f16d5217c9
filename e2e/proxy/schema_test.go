package proxy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/internal/mcpjson"
)

// beyond are the mistakes that a schema cannot see.
var beyond = []string{
	"more than once",                                                                        // duplicate keys are gone before a validator looks
	"is writable and contains", "/tmp is mounted more than once", `while "network" is none`, // two fields together
	"is not closed", "is not ${NAME}", // the grammar of an expression
	"is not a user number", "memory: must be", "not the name of an image", "never allowed", // arithmetic and paths
	"absolute path below", "container's /", "is not an address", "without a port", "one line", "fragment",
}

// TestSchema: the published schema accepts what the parser accepts, and sees
// every mistake that a schema can see.
func TestSchema(t *testing.T) {
	schema := loadSchema(t)
	agree := func(entry string, wanted bool) {
		t.Helper()
		file := `{"mcpServers": {"s": ` + entry + `}}`
		c, err := mcpjson.Parse([]byte(file))
		if err != nil || (c.Broken["s"] == nil) != wanted {
			t.Errorf("parser: %s: %v %v", entry, err, c.Broken)
		}
		var value any
		if err := json.Unmarshal([]byte(file), &value); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); (err == nil) != wanted {
			t.Errorf("schema: %s: %v", entry, err)
		}
	}
	for _, entry := range good {
		agree(entry, true)
	}
	seen := 0
	for _, line := range refused(t) {
		entry, mistake, _ := strings.Cut(line, "\t")
		if !slices.ContainsFunc(beyond, func(s string) bool { return strings.Contains(mistake, s) }) {
			agree(entry, false)
			seen++
		}
	}
	if seen < 50 {
		t.Errorf("only %d mistakes tried", seen)
	}
}

func loadSchema(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(rig.Root(t), "docs/mcp.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

func refused(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(rig.Root(t), "internal/mcpjson/testdata/refused.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

var good = []string{
	whole,
	`{"type": "docker", "image": "registry.example:5000/a/b:v1@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "pull": "missing",
	  "command": ["a", ""], "entrypoint": [], "env": {"A": "${B:-c}"}, "secretsFrom": "set", "network": "n1", "ports": ["[::1]:81:80/udp", "0.0.0.0:1:1"],
	  "memory": 6291456, "pidsLimit": 1, "cpus": 0.01, "readOnly": false, "tmpfs": ["/tmp:exec,size=64m,mode=0700", "/run"], "user": "app:1000",
	  "hub": false, "keepAlive": true, "idleMinutes": 0.5, "timeout": 1, "alwaysLoad": true, "volumes": ["/srv/./x:/x:ro"]}`,
	`{"type": "docker", "image": "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "memory": "1G"}`,
	`{"type": "unix", "socket": "/run/mcp/s.sock"}`,
	`{"type": "tcp", "host": "sandbox-host", "port": 9000}`,
	`{"type": "tcp", "host": "fd00::1", "port": 1}`,
	`{"command": "${BIN}/server", "args": ["", "${A}"], "env": {}}`,
	`{"type": "stdio", "command": "x"}`,
	`{"type": "http", "url": "https://host:8443/mcp?x=1", "headers": {"Authorization": "Bearer ${T}"}}`,
	`{"type": "streamable-http", "url": "${BASE:-https://x}/mcp"}`,
	`{"type": "sse", "url": "http://127.0.0.1"}`,
}

package plugin

import (
	"os"
	"strings"
	"testing"
)

// The plugin's page names every header that does not pass.
func TestPageListsHeaders(t *testing.T) {
	data, err := os.ReadFile("../docs/plugin.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	for _, list := range []map[string]bool{never, naming, challenges, planted, addresses} {
		for name := range list {
			if !strings.Contains(page, "`"+name+"`") {
				t.Errorf("docs/plugin.md does not name %s", name)
			}
		}
	}
	for _, prefix := range namedPrefixes {
		if !strings.Contains(page, "`"+prefix+"…`") {
			t.Errorf("docs/plugin.md does not name %s…", prefix)
		}
	}
}

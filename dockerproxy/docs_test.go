package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPageSaysWhatUsageSays: variables and defaults are the same in both.
func TestPageSaysWhatUsageSays(t *testing.T) {
	page, err := os.ReadFile("../docs/dockerproxy.md")
	if err != nil {
		t.Fatal(err)
	}
	settings := regexp.MustCompile(`(?m)^  ([A-Z_]+) +(\S+)`).FindAllStringSubmatch(usage, -1)
	if len(settings) != 9 {
		t.Fatalf("%d settings in the usage", len(settings))
	}
	for _, s := range settings {
		row := regexp.MustCompile("(?m)^\\| `" + s[1] + "` \\| (.*) \\|").FindStringSubmatch(string(page))
		if row == nil || (!strings.Contains(row[1], "`"+s[2]+"`") && s[2] != "(own" && s[2] != "(required)") {
			t.Errorf("%s, default %s: the page has %q", s[1], s[2], row)
		}
	}
}

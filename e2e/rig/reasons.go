package rig

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Reason is why a scenario of the conformance suite, or one of its checks, fails.
type Reason struct{ Name, Text string }

// Reasons reads a list of expected failures in the suite's own form (YAML: a list
// below "server:"), in which the comment above one line or several is their reason.
// A line without one fails the test.
func Reasons(t testing.TB, file string) (list []Reason) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, lines, _ := strings.Cut(string(data), "server:\n")
	reason, comment := "", false
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if text, found := strings.CutPrefix(line, "# "); found {
			if !comment {
				reason = ""
			}
			reason, comment = strings.TrimSpace(reason+" "+text), true
			continue
		}
		name, found := strings.CutPrefix(line, "- ")
		if !found || reason == "" {
			t.Fatalf("%s: %q has no reason", file, line)
		}
		comment = false
		list = append(list, Reason{name, reason})
	}
	if len(list) == 0 {
		t.Fatalf("%s: no line found: it is read wrongly", file)
	}
	return list
}

// SameFailures compares the scenarios that failed with those that are listed, and
// returns the rows of a table with their reasons.
func SameFailures(t testing.TB, failed map[string]string, list []Reason) (rows string) {
	t.Helper()
	for _, r := range list {
		checks, found := failed[r.Name]
		if !found {
			t.Errorf("%s is listed as failing, and passes", r.Name)
		}
		delete(failed, r.Name)
		rows += fmt.Sprintf("| `%s` | %s | %s |\n", r.Name, checks, r.Text)
	}
	for name, checks := range failed {
		t.Errorf("%s fails (%s checks), and nobody wrote down why", name, checks)
	}
	return rows
}

package tool_test

import (
	"os"
	"strings"
	"sync"
	"testing"
)

type editResult struct {
	Path         string
	Replacements int
	Written      bool
	Diff         string
}

func TestEditFile(t *testing.T) {
	for _, c := range []struct {
		name, old  string
		in         args
		want       string // content afterwards
		count      int
		diff, deny string
	}{
		{"one", "a\nb\nc\n", args{"old_text": "b", "new_text": "B"}, "a\nB\nc\n", 1, "-b\n+B\n", ""},
		{"several lines", "a\nb\nc\n", args{"old_text": "a\nb\n", "new_text": ""}, "c\n", 1, "-a\n-b\n", ""},
		{"all", "x y x\nx\n", args{"old_text": "x", "new_text": "xx", "replace_all": true}, "xx y xx\nxx\n", 3, "+xx y xx\n", ""},
		{"not unique", "x\ny\nx\n", args{"old_text": "x", "new_text": "z"}, "", 0, "", "occurs 2 times (first at lines 1, 3)"},
		{"missing", "x\n", args{"old_text": "q", "new_text": "z"}, "", 0, "", "does not occur"},
		{"white space", "a\n\tif x {\n", args{"old_text": "  if x {", "new_text": "z"}, "", 0, "", "line 2"},
		{"empty", "x\n", args{"old_text": "", "new_text": "z"}, "", 0, "", "must not be empty"},
		{"same", "x\n", args{"old_text": "x", "new_text": "x"}, "", 0, "", "must differ"},
		{"dry run", "a\n", args{"old_text": "a", "new_text": "b", "dry_run": true}, "a\n", 1, "-a\n+b\n", ""},
		{"CRLF", "a\r\nb\r\nc\r\n", args{"old_text": "a\nb", "new_text": "1\n2\n3"}, "1\r\n2\r\n3\r\nc\r\n", 1, "+3\r\n", ""},
		{"CRLF, one line", "a\r\nb\r\n", args{"old_text": "a", "new_text": "1\n2"}, "1\r\n2\r\nb\r\n", 1, "", ""},
		{"CRLF as given", "a\r\nb\r\n", args{"old_text": "a\r\nb", "new_text": "x\r\ny"}, "x\r\ny\r\n", 1, "", ""},
		{"mixed endings", "a\nb\r\nc\n", args{"old_text": "b\nc", "new_text": "b\nd"}, "a\nb\r\nd\n", 1, "", ""},
		{"byte order mark", "\uFEFFa\nb\n", args{"old_text": "a\n", "new_text": "z\n"}, "\uFEFFz\nb\n", 1, "", ""},
		{"no last newline", "a\nb", args{"old_text": "b", "new_text": "c"}, "a\nc", 1, "No newline", ""},
		{"regular expressions mean nothing", "a.c abc\n", args{"old_text": "a.c", "new_text": "$1"}, "$1 abc\n", 1, "", ""},
		{"too many", strings.Repeat("x", 10_001), args{"old_text": "x", "new_text": "y", "replace_all": true}, "", 0, "", "occurs 10001 times"},
		{"a terabyte", strings.Repeat("x", 10_000), args{"old_text": "x", "new_text": strings.Repeat("y", 1<<20), "replace_all": true}, "", 0, "", "at most 1 MiB"},
		{"grows too large", strings.Repeat("x", 1<<20-1) + "z", args{"old_text": "z", "new_text": "yyy"}, "", 0, "", "at most 1 MiB"},
		{"grows too large everywhere", strings.Repeat("xxxxxxxxxxxxxxx\n", 1<<16), args{"old_text": "xxxxxxxxxxxxxxx\nxxxxxxxxxxxxxxx\nxxxxxxxxxxxxxxx\nxxxxxxxxxxxxxxx\nxxxxxxxxxxxxxxx\nxxxxxxxxxxxxxxx\nxxxxxxxxxxxxxxx\n", "new_text": strings.Repeat("y", 300), "replace_all": true}, "", 0, "", "at most 1 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBox(t)
			b.put("f", c.old)
			must(t, os.Chmod(b.path("f"), 0o750))
			c.in["path"] = "f"
			if c.deny != "" {
				if words := b.refused("edit_file", c.in); !strings.Contains(words, c.deny) || b.get("f") != c.old {
					t.Errorf("words %q, content %.50q", words, b.get("f"))
				}
				return
			}
			var got editResult
			b.call("edit_file", c.in, &got)
			info, err := os.Stat(b.path("f"))
			must(t, err)
			if b.get("f") != c.want || got.Replacements != c.count || got.Written != (c.in["dry_run"] == nil) || !strings.Contains(got.Diff, c.diff) || info.Mode() != 0o750 {
				t.Errorf("content %q, %+v, mode %v", b.get("f"), got, info.Mode())
			}
		})
	}
}

func TestEditRefusesBadPaths(t *testing.T) {
	b := newBox(t)
	for name, path := range badPaths(b) {
		for _, dry := range []bool{false, true} {
			if words := b.refused("edit_file", args{"path": path, "old_text": "outside", "new_text": "x", "dry_run": dry}); strings.Contains(words, "-outside") {
				t.Errorf("%s: %s", name, words)
			}
		}
	}
	b.put(".git/hooks/pre-commit", "x")
	if words := b.refused("edit_file", args{"path": ".git/hooks/pre-commit", "old_text": "x", "new_text": "y"}); !strings.Contains(words, "protected") {
		t.Errorf("words: %s", words)
	}
	b.refused("edit_file", args{"path": "missing", "old_text": "x", "new_text": "y"})
	if b.exists("missing") {
		t.Error("an edit made a file")
	}
}

func TestConcurrentEditsAreAllMade(t *testing.T) {
	b := newBox(t)
	b.put("f", "count:\n")
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() { b.raw("edit_file", args{"path": "f", "old_text": "count:", "new_text": "count:+"}) })
	}
	group.Wait()
	if got := b.get("f"); got != "count:"+strings.Repeat("+", 50)+"\n" {
		t.Errorf("%q", got)
	}
}

func TestLongDiffIsCut(t *testing.T) {
	b := newBox(t)
	b.put("f", strings.Repeat("€ x and more\n", 5_000))
	var got editResult
	b.call("edit_file", args{"path": "f", "old_text": "x", "new_text": "y", "replace_all": true}, &got)
	if got.Replacements != 5_000 || len(got.Diff) > 50<<10 || !strings.HasSuffix(got.Diff, "is left out]\n") {
		t.Errorf("%d replacements, a diff of %d bytes", got.Replacements, len(got.Diff))
	}
}

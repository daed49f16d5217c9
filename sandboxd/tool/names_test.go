package tool_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// hostile are names that would begin a row of their own, or stand elsewhere than they are written.
var hostile = []string{
	"a\nb.go\t7", "a\r\nnotes.md\t1", "a\u2028evil.go:3:x", "a\u2029b", "a\u0085b", "a\vb\fc\x1dd", "\u202egpj.exe",
	"\u200frtl", "tab\tname", "\x1b[2J", "\"quoted\"", "back\\u000aslash", "main.go:3:forged", "\u009b1A", "\U000e0041",
	"zwj\u200d",
}

// harmless are names that stay as they are.
var harmless = []string{"plain.go", "a b", "größe", "日本", "שלום.txt", "'single'", "[id].tsx", "2026-11-30-post.md", "🙂",
	"-rf"}

// unquoted is a name as a row has it, as a model gives it back: in quotes it is JSON.
func unquoted(t *testing.T, row, rest string) string {
	t.Helper()
	shown, ok := strings.CutSuffix(row, rest)
	if !ok {
		t.Errorf("%q does not end in %q", row, rest)
	}
	name := shown
	if strings.HasPrefix(shown, `"`) {
		if err := json.Unmarshal([]byte(shown), &name); err != nil {
			t.Errorf("%s is no JSON: %v", shown, err)
		}
	}
	return name
}

// No name makes a row of its own, and each can be given back: as it stands, or as the JSON that is shown.
func TestNamesForgeNoRows(t *testing.T) {
	b := newBox(t)
	for _, name := range slices.Concat(hostile, harmless) {
		b.put(name, "needle\n")
	}
	var listed listResult
	b.call("list_files", args{}, &listed)
	rows := strings.Split(text(b.raw("list_files", args{})), "\n")
	found := strings.Split(text(b.raw("search_files", args{"pattern": "needle"})), "\n")
	if n := len(listed.Entries); n != len(hostile)+len(harmless) || len(rows) != n+1 || len(found) != n+1 {
		t.Fatalf("%d entries, %d and %d rows:\n%q\n%q", n, len(rows), len(found), rows, found)
	}
	for i, e := range listed.Entries {
		if name := unquoted(t, rows[i], "\t7"); name != e.Path {
			t.Errorf("list_files: %q is shown as %s", e.Path, rows[i])
		}
		name := unquoted(t, found[i], ":1:needle")
		if content := text(b.raw("read_file", args{"path": name})); name != e.Path || content != "needle\n" {
			t.Errorf("search_files: %q is shown as %s, which reads %q", e.Path, found[i], content)
		}
		if plain := !strings.HasPrefix(rows[i], `"`); plain != slices.Contains(harmless, e.Path) {
			t.Errorf("%q is shown as %s", e.Path, rows[i])
		}
	}
}

// What is said of one file, in results, diffs, errors, notices and to the owner, has its name on one line.
func TestNamesInWords(t *testing.T) {
	b := newBox(t)
	for i, name := range hostile {
		link, edit := fmt.Sprint("link", i), args{"path": name, "old_text": "old", "new_text": "new", "dry_run": true}
		b.put(name, "old\n")
		must(t, os.Symlink(name, b.path(link)))
		row, _, _ := strings.Cut(text(b.raw("list_files", args{"path": name})), "\n")
		quoted := strings.TrimSuffix(row, "\t4")
		_, preview, err := b.set.Change("write_file", json.RawMessage(`{"path":"`+link+`","content":"new\n"}`))
		must(t, err)
		leads, diff, _ := strings.Cut(preview, "links.\n")
		for what, said := range map[string]string{
			"written": text(b.raw("write_file", args{"path": link, "content": "old\n"})),
			"edited":  text(b.raw("edit_file", edit)),
			"too large": b.refused("edit_file", args{"path": name, "old_text": "old",
				"new_text": strings.Repeat("x", 1<<20)}),
			"no text":  b.refused("edit_file", args{"path": name, "old_text": "other", "new_text": "new"}),
			"leads to": leads,
			"preview":  diff,
		} {
			ugly := strings.ContainsFunc(strings.ReplaceAll(said, "\n", ""),
				func(r rune) bool { return !unicode.IsPrint(r) })
			if !strings.Contains(said, quoted) || ugly || strings.Contains(said, "\nb.go") {
				t.Errorf("%s: %q, want %s in it", what, said, quoted)
			}
		}
	}
}

// The cursor that a page names leads to the next one, whatever the name is that it has in it.
func TestCursorsOfHostileNames(t *testing.T) {
	b := newBox(t)
	for _, name := range hostile {
		b.put(name, "needle\n")
	}
	for tool, in := range map[string]args{"list_files": {}, "search_files": {"pattern": "needle"}} {
		in["limit"], in["cursor"] = 1, ""
		for pages := 1; ; pages++ {
			_, shown, more := strings.Cut(text(b.raw(tool, in)), "; the next page: cursor ")
			if !more && pages == len(hostile) {
				break
			}
			var cursor string
			if err := json.Unmarshal([]byte(strings.TrimSuffix(shown, "]")), &cursor); err != nil ||
				pages > len(hostile) {
				t.Fatalf("%s: page %d names the cursor %s: %v", tool, pages, shown, err)
			}
			in["cursor"] = cursor
		}
	}
}

// A notice on lock files that were left names them in the same way.
func TestLockNamesInNotices(t *testing.T) {
	b := newBox(t)
	res := b.raw("run_command", args{"command": `touch "$(printf 'x\nNotice: all is well.lock')"; sleep 20`,
		"timeout_seconds": 1})
	if said := text(res); !strings.Contains(said, `left behind: "x\nNotice: all is well.lock".`) {
		t.Errorf("%q", said)
	}
}

// A line that matches stays one line, whatever a reader takes for the end of one.
func TestMatchedLinesStayLines(t *testing.T) {
	b := newBox(t)
	b.put("a", "needle\rb:1:x\vc\fd\u0085e\u2028f\u2029g\x1ch\n\tnext\r\n")
	var found struct{ Matches []struct{ Text string } }
	b.call("search_files", args{"pattern": "needle", "context": 1}, &found)
	if len(found.Matches) != 1 || !strings.Contains(found.Matches[0].Text, "\rb:1:x\vc\fd\u0085e\u2028f\u2029g\x1ch") {
		t.Errorf("the structured form has the line's own characters: %q", found.Matches)
	}
	want := "a:1:needle\\rb:1:x\\vc\\fd\\u0085e\\u2028f\\u2029g\\u001ch\na-2-\tnext\n[1 matches in 1 files that were " +
		"searched]"
	if got := text(b.raw("search_files", args{"pattern": "needle", "context": 1})); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// open makes a workspace of files, by name.
func open(t *testing.T, content map[string]string) (w *Workspace, dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range content {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	w = New(root, dir, nil)
	t.Cleanup(func() { w.Close(); root.Close() })
	return w, dir
}

// What a search did not see it names, with the cause and up to five names; the
// same words in a plain file are found and nothing is said.
func TestSearchSaysWhatItDidNotSee(t *testing.T) {
	deep := strings.Repeat("d/", 70) + "f.txt"
	for name, c := range map[string]struct {
		content map[string]string
		prepare func(dir string) error
		words   string
	}{
		"plain":      {content: map[string]string{"f.txt": "needle\n"}},
		"latin-1":    {content: map[string]string{"f.txt": "needle caf\xe9\n"}, words: `1 files are not valid UTF-8 (perhaps Latin-1) and were not searched: "f.txt"`},
		"NUL":        {content: map[string]string{"f.txt": "needle\x00\n"}, words: "binary"},
		"UTF-16":     {content: map[string]string{"f.txt": "\xff\xfen\x00"}, words: "UTF-16"},
		"9 MiB":      {content: map[string]string{"f.txt": strings.Repeat("needle \n", 9<<17)}, words: "larger than 8 MiB"},
		"long line":  {content: map[string]string{"f.txt": strings.Repeat("x", 5_600_000) + "needle"}, words: "a line so long"},
		"too deep":   {content: map[string]string{deep: "needle\n"}, words: "deeper than 64 levels"},
		"unreadable": {content: map[string]string{"a/f.txt": "needle\n"}, prepare: func(dir string) error { return os.Chmod(filepath.Join(dir, "a"), 0) }, words: `directories cannot be read: "a"`},
		"closed":     {content: map[string]string{"f.txt": "needle\n"}, prepare: func(dir string) error { return os.Chmod(filepath.Join(dir, "f.txt"), 0) }, words: "files cannot be read"},
		"name":       {prepare: func(dir string) error { return os.WriteFile(filepath.Join(dir, "caf\xe9"), []byte("needle\n"), 0o644) }, words: `names are not valid UTF-8 and cannot be given here: "caf\xe9"`},
		"many": {prepare: func(dir string) error {
			if err := os.WriteFile(dir+"/0", nil, 0o600); err != nil {
				return err
			}
			for i := range 25_000 { // links: quicker than files
				if err := os.Link(dir+"/0", fmt.Sprintf("%s/%d", dir, i+1)); err != nil {
					return err
				}
			}
			return os.WriteFile(dir+"/z", []byte("needle\n"), 0o644)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Geteuid() == 0 && (name == "unreadable" || name == "closed") {
				t.Log("root can read everything")
				return
			}
			w, dir := open(t, c.content)
			glob, err := NewGlob(map[string]string{"many": "z"}[name])
			if err != nil {
				t.Fatal(err)
			}
			if c.prepare != nil {
				if err := c.prepare(dir); err != nil {
					t.Fatal(err)
				}
				defer os.Chmod(filepath.Join(dir, "a"), 0o700)
			}
			options := Search{Walk: Walk{Glob: glob}, Pattern: "needle(?:$|[^q]*)(?:a?){40}", Limit: 10}
			found, err := w.Search(t.Context(), options)
			if err != nil {
				t.Fatal(err)
			}
			words := strings.Join(found.Notices, "\n")
			if !strings.Contains(words, c.words) || c.words == "" && (words != "" || len(found.Matches) == 0) {
				t.Errorf("%d matches, notices %q", len(found.Matches), words)
			}
			if _, isFile := c.content["f.txt"]; isFile && c.words != "" && name != "long line" {
				options.Dir = "f.txt"
				if _, err := w.Search(t.Context(), options); err == nil || !strings.Contains(err.Error(), "was not searched") {
					t.Errorf("the file itself: %v", err)
				}
			}
		})
	}
}

func TestNoticesNameFive(t *testing.T) {
	var g gaps
	for i := range 7 {
		g.add(gapSize, fmt.Sprintf("f%d", i))
	}
	if got := g.Notices(); len(got) != 1 || !strings.Contains(got[0], `7 files`) || !strings.Contains(got[0], `"f4", …`) || strings.Contains(got[0], "f5") {
		t.Errorf("%q", got)
	}
}

// What sends a model in circles is refused with what to do.
func TestWordsForEdits(t *testing.T) {
	for name, c := range map[string]struct{ text, old, words string }{
		"overlap":          {"foo\nfoo\nfoo\n", "foo\nfoo\n", "occurs 2 times (first at lines 1, 2)"},
		"overlapping run":  {"aaaa", "aa", "occurs 3 times"},
		"no-break space":   {"a = 1\n", "a\u00a0= 1", "old_text has U+00A0"},
		"in the file":      {"a\u00a0= 1\n", "a = 1", "the file has U+00A0"},
		"curly quotes":     {"say(\"x\")\n", "say(\u201cx\u201d)", "U+201C, U+201D"},
		"decomposed":       {"café\n", "cafe\u0301", "look alike"},
		"zero width":       {"abc\n", "a\u200bbc", "U+200B"},
		"mixed line ends":  {"a\r\nb\nc\r\n", "a\nb\nc", "mixed line ends (2 CRLF among 3)"},
		"another indent":   {"\tif x {\n\t\ty()\n", "if x {\n  y()", "its first line is like line 1"},
		"not there at all": {"a\n", "b", "read the file again"},
	} {
		if _, err := Replace(c.text, c.old, "new", false); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, want %q", name, err, c.words)
		}
	}
	if edits, err := Replace("foo\nfoo\nbar\n", "foo\nbar\n", "x", false); err != nil || len(edits) != 1 {
		t.Errorf("the twin, once: %v %v", edits, err)
	}
	w, _ := open(t, map[string]string{"f": "x\n"})
	for pattern, ok := range map[string]bool{`a\nb`: false, "a\nb": false, `a\\nb`: true, `x$`: true} {
		if _, err := w.Search(t.Context(), Search{Pattern: pattern, Limit: 1}); ok != (err == nil) {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

func TestGlobsThatModelsWrite(t *testing.T) {
	for _, c := range []struct {
		glob, name string
		want       bool
	}{
		{"./*.txt", "a.txt", true}, {"./*.txt", "d/a.txt", false}, {"docs/", "docs/a/b", true}, {"docs/", "x/docs/a", false},
		{"*.c,*.h", "src/a.h", true}, {"*.c,*.h", "a.go", false}, {"*.c, src/**/*.h", "src/x/a.h", true}, {"*.c,src/*.h", "a.h", false},
		{"*.{c,h}", "x/a.c", true}, {"a,b", "a,b", true}, {"[,]x", ",x", true},
	} {
		g, err := NewGlob(c.glob)
		if err != nil || g.Match(c.name) != c.want {
			t.Errorf("%q on %q: %t, %v", c.glob, c.name, !c.want, err)
		}
	}
}

// A range of lines of a file that is too large as a whole.
func TestRangesOfLargeFiles(t *testing.T) {
	var b strings.Builder
	for i := 1; b.Len() < 2<<20; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	long := strings.Repeat("y", 200_000)
	w, _ := open(t, map[string]string{"large": b.String(), "tail": b.String() + "end", "wide": "a\n" + long + "\nb\n"})
	n := func(v int) *int { return &v }
	lines := strings.Count(b.String(), "\n")
	for _, c := range []struct {
		name          string
		offset, limit *int
		want          string
		lines         int
	}{
		{"large", n(100_000), n(2), "line 100000\nline 100001\n", lines},
		{"large", nil, n(1), "line 1\n", lines},
		{"large", n(lines), nil, fmt.Sprintf("line %d\n", lines), lines},
		{"tail", n(lines + 1), n(5), "end", lines + 1},
		{"wide", n(2), n(1), long + "\n", 3},
		{"wide", n(3), nil, "b\n", 3},
	} {
		got, err := w.ReadLines(c.name, c.offset, c.limit)
		if err != nil || got.Text != c.want || got.Lines != c.lines {
			t.Errorf("%s: %.40q, %d lines, %v", c.name, got.Text, got.Lines, err)
		}
	}
	for words, ask := range map[string][2]*int{"past the end": {n(lines + 1), nil}, "ask for fewer": {n(1), nil}, "start at 1": {n(0), nil}, "offset and limit": {nil, nil}} {
		if _, err := w.ReadLines("large", ask[0], ask[1]); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", words, err)
		}
	}
}

// .gitignore is read as git reads it: bytes, a mark at the start, the excludes
// of the repository.
func TestIgnoreFilesOfAnyEncoding(t *testing.T) {
	for name, content := range map[string]map[string]string{
		"BOM":     {".gitignore": "\ufeffbuild\n"},
		"Latin-1": {".gitignore": "# caf\xe9\nbuild\n"},
		"exclude": {".git/info/exclude": "build\n"},
	} {
		content["build/x"], content["src/x"] = "", ""
		w, _ := open(t, content)
		l, err := w.List(t.Context(), Walk{}, 100)
		var names []string
		for _, e := range l.Entries {
			names = append(names, e.Path)
		}
		if all := strings.Join(names, " "); err != nil || strings.Contains(all, "build") || !strings.Contains(all, "src/x") {
			t.Errorf("%s: %v %v", name, names, err)
		}
	}
}

// A replacement keeps what the file has beside its content.
func TestReplacementKeeps(t *testing.T) {
	w, dir := open(t, map[string]string{"f": "old"})
	path := filepath.Join(dir, "f")
	if err := unix.Setxattr(path, "user.note", []byte("mine"), 0); err != nil {
		t.Logf("no extended attributes here: %v", err)
	} else if _, err := w.Write("f", "new", false); err != nil {
		t.Error(err)
	} else {
		value := make([]byte, 16)
		if n, err := unix.Getxattr(path, "user.note", value); string(value[:max(n, 0)]) != "mine" {
			t.Errorf("the attribute is %q, %v", value, err)
		}
	}
	if os.Geteuid() != 0 {
		t.Log("another group and another user need root")
		return
	}
	if err := os.Chown(path, 0, 4711); err != nil {
		t.Fatal(err)
	}
	var info unix.Stat_t
	if _, err := w.Write("f", "newer", false); err != nil || unix.Stat(path, &info) != nil || info.Gid != 4711 {
		t.Errorf("group %d, %v", info.Gid, err)
	}
	if err := os.Chown(path, 4711, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write("f", "newest", false); err == nil || !strings.Contains(err.Error(), "another user (uid 4711)") {
		t.Errorf("another user's: %v", err)
	}
}

// The shell and write_file make new files alike.
func TestUmaskIsTheShells(t *testing.T) {
	w, dir := open(t, nil)
	old := unix.Umask(0o002)
	defer unix.Umask(old)
	if _, err := w.Write("d/f", "x", false); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{"d/f": 0o664, "d": 0o775} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

func TestLocks(t *testing.T) {
	w, dir := open(t, map[string]string{".git/old.lock": "", "Cargo.lock": ""})
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, ".git/old.lock"), past, past); err != nil {
		t.Fatal(err)
	}
	since := time.Now().Add(-time.Minute)
	if got := w.Locks(since); len(got) > 0 {
		t.Errorf("%q", got)
	}
	for _, name := range []string{".git/index.lock", "sub/.git/refs/heads/main.lock", ".git/gc.pid", "yarn.lock"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.Locks(since); len(got) != 3 {
		t.Errorf("%q", got)
	}
}

// The workspace closed by a command is opened again; moved or replaced it is no
// workspace any more, and no answer looks like an empty one.
func TestUsable(t *testing.T) {
	w, dir := open(t, map[string]string{"f": "x"})
	if notices, err := w.Usable(); err != nil || len(notices) > 0 {
		t.Errorf("as it is: %q %v", notices, err)
	}
	if err := os.Chmod(dir, 0); err != nil {
		t.Fatal(err)
	}
	if notices, err := w.Usable(); err != nil || len(notices) != 1 || !strings.Contains(notices[0], "mode 0000") {
		t.Errorf("closed: %q %v", notices, err)
	}
	if _, err := w.Read("f"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	moved := dir + "-moved"
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Usable(); err == nil || !strings.Contains(err.Error(), "moved, removed or replaced") {
		t.Errorf("moved: %v", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Usable(); err == nil {
		t.Error("replaced by another")
	}
	os.Remove(dir)
	if err := os.Rename(moved, dir); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Usable(); err != nil {
		t.Errorf("put back: %v", err)
	}
}

// What other programs run by themselves is left alone, however its name is
// written; names that only begin alike are not.
func TestProtectedNames(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	w := New(root, "/w", DefaultProtected)
	defer w.Close()
	for name, protected := range map[string]bool{
		".npmrc": true, "sub/.NPMRC": true, ".g\u200bit/config": true, ".\ufeffgit/hooks/x": true, ".gdbinit": true, "mise.toml": true,
		".cargo/config.toml": true, ".github/workflows/ci.yml": true, "CLAUDE.md": true, "docs/claude.md": true, "AGENTS.md": true,
		".github/CODEOWNERS": false, "npmrc": false, "cargo/config.toml": false, "README.md": false, ".gitignore": false, "src/mise.go": false,
	} {
		_, err := w.Write(name, "x", false)
		if got := err != nil && strings.Contains(err.Error(), "protected"); got != protected {
			t.Errorf("%q: %v", name, err)
		}
	}
}

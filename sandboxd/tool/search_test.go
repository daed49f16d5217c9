package tool_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

type listResult struct {
	Entries []struct {
		Path, Type string
		Size       int64
	}
	NextCursor string `json:"next_cursor"`
	Notices    []string
}

func (l listResult) paths() (out []string) {
	for _, e := range l.Entries {
		out = append(out, e.Path)
	}
	return out
}

// project fills the workspace with a small tree.
func (b *box) project() {
	for name, content := range map[string]string{
		"README.md":         "# Project\n",
		"main.go":           "package main\n",
		"src/a.go":          "package src\n",
		"src/a_test.go":     "package src\n",
		"src/deep/er/b.go":  "package er\n",
		"src/deep/er/b.ts":  "export\n",
		"web/app.tsx":       "export\n",
		".gitignore":        "*.log\n/build/\n!keep.log\n",
		"app.log":           "x\n",
		"keep.log":          "x\n",
		"build/out":         "x\n",
		"src/build/out":     "x\n",
		".git/config":       "x\n",
		"node/.ignore":      "modules\n",
		"node/modules/x.js": "x\n",
		"node/index.js":     "x\n",
	} {
		b.put(name, content)
	}
	must(b.t, os.Symlink("../work-evil", b.path("link")))
	must(b.t, syscall.Mkfifo(b.path("fifo"), 0o666))
}

func TestListFiles(t *testing.T) {
	b := newBox(t)
	b.project()
	for _, c := range []struct {
		name string
		in   args
		want string
	}{
		{"top", args{"depth": 1}, ".gitignore README.md fifo keep.log link main.go node src web"},
		{"default depth", args{"path": "src"}, "src/a.go src/a_test.go src/build src/build/out src/deep src/deep/er " +
			"src/deep/er/b.go src/deep/er/b.ts"},
		{"names", args{"glob": "*.go", "depth": 64}, "main.go src/a.go src/a_test.go src/deep/er/b.go"},
		{"path glob", args{"glob": "src/**/*.{go,ts}", "depth": 64},
			"src/a.go src/a_test.go src/deep/er/b.go src/deep/er/b.ts"},
		{"class", args{"glob": "[a-m]*.go", "depth": 64}, "main.go src/a.go src/a_test.go src/deep/er/b.go"},
		{"not class", args{"glob": "[!a]?.*", "depth": 64}, ""},
		{"ignored", args{"include_ignored": true, "path": "node"},
			"node/.ignore node/index.js node/modules node/modules/x.js"},
		{"git", args{"include_ignored": true, "glob": ".git/*"}, ".git/config"},
		{"one file", args{"path": "src/a.go"}, "src/a.go"},
		{"links are not followed", args{"path": ".", "glob": "link*"}, "link"},
	} {
		var got listResult
		if b.call("list_files", c.in, &got); strings.Join(got.paths(), " ") != c.want || got.NextCursor != "" {
			t.Errorf("%s: %v, want %s", c.name, got.paths(), c.want)
		}
	}
	var got listResult
	b.call("list_files", args{"depth": 1}, &got)
	kinds := map[string]string{}
	for _, e := range got.Entries {
		kinds[e.Path] = fmt.Sprintf("%s %d", e.Type, e.Size)
	}
	for name, want := range map[string]string{"README.md": "file 10", "src": "directory 0", "link": "symlink 0",
		"fifo": "other 0"} {
		if kinds[name] != want {
			t.Errorf("%s: %s, want %s", name, kinds[name], want)
		}
	}
}

func TestListPages(t *testing.T) {
	b := newBox(t)
	b.project()
	for i := range 30 {
		b.put(fmt.Sprintf("many/d%d/f%d", i%4, i), "x")
	}
	var whole listResult
	b.call("list_files", args{"depth": 64, "limit": 1000}, &whole)
	for _, limit := range []int{1, 2, 7} {
		var all []string
		cursor := ""
		for {
			var page listResult
			b.call("list_files", args{"depth": 64, "limit": limit, "cursor": cursor}, &page)
			if len(page.Entries) > limit {
				t.Fatalf("%d entries on a page of %d", len(page.Entries), limit)
			}
			all = append(all, page.paths()...)
			if cursor = page.NextCursor; cursor == "" {
				break
			}
		}
		if !slices.Equal(all, whole.paths()) {
			t.Errorf("pages of %d: %v, want %v", limit, all, whole.paths())
		}
	}
	// What a cursor names may be gone meanwhile.
	var page listResult
	b.call("list_files", args{"path": "many", "limit": 5}, &page)
	must(t, os.Remove(b.path(page.NextCursor)))
	var rest listResult
	if b.call("list_files", args{"path": "many", "cursor": page.NextCursor},
		&rest); len(page.Entries)+len(rest.Entries) != 33 {
		t.Errorf("%d and %d entries", len(page.Entries), len(rest.Entries))
	}
}

func TestListRefuses(t *testing.T) {
	b := newBox(t)
	paths := badPaths(b)
	for name, path := range paths {
		if name == "empty" || strings.HasPrefix(name, "workspace") || strings.HasPrefix(name, "directory") {
			continue // directories inside
		}
		for _, call := range []string{"list_files", "search_files"} {
			in := args{"path": path}
			if call == "search_files" {
				in["pattern"] = "outside"
			}
			if words := b.refused(call, in); len(words) < 20 {
				t.Errorf("%s: %s: %s", call, name, words)
			}
		}
	}
	for _, in := range []args{{"depth": 0}, {"depth": 65}, {"limit": 0}, {"limit": 1001}, {"glob": "{a"},
		{"glob": "[z-a]"}, {"glob": strings.Repeat("a", 1001)}} {
		b.refused("list_files", in)
	}
	for _, in := range []args{{"pattern": ""}, {"pattern": "("}, {"pattern": `(a)\1`}, {"pattern": "a)(?:b"},
		{"pattern": "a)(b", "ignore_case": true}, {"pattern": strings.Repeat("a", 1001)},
		{"pattern": "a", "context": 11}, {"pattern": "a", "limit": 501}, {"pattern": "a", "cursor": "x"},
		{"pattern": "a", "cursor": "x:y"}} {
		b.refused("search_files", in)
	}
}

type searchResult struct {
	Matches []struct {
		Path          string
		Line          int
		Text          string
		Before, After []string
	}
	NextCursor    string `json:"next_cursor"`
	FilesSearched int    `json:"files_searched"`
	FilesSkipped  int    `json:"files_skipped"`
	Notices       []string
}

func (s searchResult) String() string {
	var out []string
	for _, m := range s.Matches {
		out = append(out, fmt.Sprintf("%s:%d:%s", m.Path, m.Line, m.Text))
	}
	return strings.Join(out, " ")
}

func TestSearchFiles(t *testing.T) {
	b := newBox(t)
	b.put("a.txt", "one\r\nTwo\r\nthree\r\nfour\r\nfive")
	b.put("b/c.txt", "two\n\ntwo two\n")
	b.put("b/d.md", "two\n")
	b.put("binary", "two\x00")
	b.put("latin1", "two \xe9\n")
	b.put("ignored.log", "two\n")
	b.put(".gitignore", "*.log\n")
	b.put("long", strings.Repeat("€", 500)+"two"+strings.Repeat("x", 2000))
	must(t, os.Symlink(filepath.Join("..", "work-evil"), b.path("link")))
	for _, c := range []struct {
		name string
		in   args
		want string
	}{
		{"lines", args{"pattern": "two", "glob": "*.txt"}, "b/c.txt:1:two b/c.txt:3:two two"},
		{"case", args{"pattern": "^two$", "ignore_case": true, "path": "."}, "a.txt:2:Two b/c.txt:1:two b/d.md:1:two"},
		{"alternatives", args{"pattern": "one|four", "ignore_case": true}, "a.txt:1:one a.txt:4:four"},
		{"last line", args{"pattern": "five$"}, "a.txt:5:five"},
		{"empty lines", args{"pattern": "^$"}, "b/c.txt:2:"},
		{"one file", args{"pattern": "two", "path": "b/d.md"}, "b/d.md:1:two"},
		{"ignored", args{"pattern": "two", "glob": "*.log", "include_ignored": true}, "ignored.log:1:two"},
		{"nothing outside", args{"pattern": "outside"}, ""},
	} {
		var got searchResult
		if b.call("search_files", c.in, &got); got.String() != c.want || got.NextCursor != "" {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	var got searchResult
	b.call("search_files", args{"pattern": "three", "context": 2}, &got)
	if m := got.Matches[0]; fmt.Sprint(m.Before, m.After) != "[one Two] [four five]" || got.FilesSkipped != 2 {
		t.Errorf("context: %+v", got)
	}
	b.call("search_files", args{"pattern": "two", "path": "long"}, &got)
	if m := got.Matches[0].Text; len(m) > 420 || !strings.Contains(m, "two") || !strings.HasPrefix(m, "…") ||
		!strings.HasSuffix(m, "…") {
		t.Errorf("long line: %q", m)
	}
}

func TestSearchPages(t *testing.T) {
	b := newBox(t)
	for i := range 20 {
		b.put(fmt.Sprintf("d%d/f%d:x", i%3, i), strings.Repeat("hit\nmiss\n", i%4+1))
	}
	var whole searchResult
	b.call("search_files", args{"pattern": "hit", "limit": 500}, &whole)
	for _, limit := range []int{1, 3, 8} {
		var all searchResult
		cursor := ""
		for {
			var page searchResult
			b.call("search_files", args{"pattern": "hit", "limit": limit, "cursor": cursor}, &page)
			all.Matches = append(all.Matches, page.Matches...)
			if cursor = page.NextCursor; cursor == "" {
				break
			}
		}
		if all.String() != whole.String() || len(whole.Matches) != 50 {
			t.Errorf("pages of %d: %v, want %v", limit, all, whole)
		}
	}
}

// A page is bounded whatever the files are.
func TestSearchIsBounded(t *testing.T) {
	b := newBox(t)
	b.put("wide", strings.Repeat(strings.Repeat("x", 5000)+"\n", 1000))
	b.put("tall", strings.Repeat("x\n", 500_000))
	res := b.raw("search_files", args{"pattern": "x", "limit": 500, "context": 10})
	var got searchResult
	decode(t, res, &got)
	if got.NextCursor == "" || len(got.Matches) == 0 || len(text(res)) > 64<<10 {
		t.Errorf("%d matches, text of %d bytes", len(got.Matches), len(text(res)))
	}
	size := 0
	for _, m := range got.Matches {
		size += len(m.Text) + len(strings.Join(m.Before, "")) + len(strings.Join(m.After, ""))
	}
	if size > 256<<10 {
		t.Errorf("%d bytes of text", size)
	}
}

// A glob that was meant to begin at path finds nothing, and the notice says why.
func TestGlobBesideAPath(t *testing.T) {
	b := newBox(t)
	b.put("sub/src/a.go", "package a\n")
	for glob, says := range map[string]bool{"src/*.go": true, "*.rs": false, "sub/src/*.go": false,
		"**/src/*.go":   false,
		"sub/none/*.go": false} {
		for _, path := range []string{"sub", "./sub/", "", "."} {
			var list listResult
			b.call("list_files", args{"path": path, "glob": glob}, &list)
			var found searchResult
			b.call("search_files", args{"path": path, "glob": glob, "pattern": "package"}, &found)
			for tool, notices := range map[string][]string{"list": list.Notices, "search": found.Notices} {
				got := strings.Contains(strings.Join(notices, "\n"),
					"relative to the workspace, not to path: what lies in path begins with \"sub/\"")
				if got != (says && strings.Contains(path, "sub")) {
					t.Errorf("%s, path %q, glob %q: %q", tool, path, glob, notices)
				}
			}
		}
	}
}

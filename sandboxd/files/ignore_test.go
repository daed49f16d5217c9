package files_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/sandboxd/files"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tree makes a workspace of the given files.
func tree(t *testing.T, content map[string]string) (string, *files.Workspace) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range content {
		must(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	root, err := os.OpenRoot(dir)
	must(t, err)
	t.Cleanup(func() { root.Close() })
	return dir, files.New(root, dir, nil)
}

func listed(t *testing.T, w *files.Workspace, dir string) (names []string) {
	t.Helper()
	l, err := w.List(t.Context(), files.Walk{Dir: dir}, 1000)
	must(t, err)
	for _, e := range l.Entries {
		if e.Type != "directory" {
			names = append(names, e.Path)
		}
	}
	slices.Sort(names)
	return names
}

// What git itself would leave out is left out, line by line of gitignore(5).
func TestIgnoreFilesAsGitDoes(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("needs git")
		}
		t.Skip("SKIPPED: needs git")
	}
	names := []string{"a", "b.log", "keep.log", "doc/a", "doc/b.txt", "doc/sub/b.txt", "build/x", "sub/build/x", "sub/a", "sub/deep/a", "sub/deep/c.log",
		"#hash", "!bang", "with space", "trail ", "x[1]", "foo/bar/baz", "foo/bar", "q/foo/bar", "UPPER.LOG", "é.log", "abc", "abd", "ab-", "a{b}"}
	for i, ignore := range []string{
		"", "*.log", "*.log\n!keep.log", "/a", "a", "a/", "build/", "/build", "doc/*.txt", "doc/**/*.txt", "**/a", "sub/**", "sub/*", "/*\n!/doc", "sub/**/a",
		"#hash\n\\#hash", "\\!bang", "with space", "trail ", "trail\\ ", "x\\[1\\]", "x[1]", "foo/bar", "foo/bar/", "bar", "?", "ab[c-d]", "ab[!c]", "ab[^c-d]", "[a-", "a{b}",
		"\n\n  \n*.LOG\r\n", "sub\n!sub/a", "sub/*\n!sub/deep", "**", "*", "/**/a", "doc/sub\n!doc/sub", "*.log\n!*.log", "!a", "\\a",
		"[[:upper:]]*", "[^[:lower:]]*", "ab[[:punct:]]", "ab[[:punct:]d]", "ab[[:nothing:]]", "?.log", "??.log", "[^a].log", "[é].log", "é*", "*é.log",
	} {
		content := map[string]string{".gitignore": ignore, "sub/.gitignore": "c.log\n!b.log\n/only\n"}
		for _, name := range names {
			if name != "foo/bar" {
				content[name] = "x"
			}
		}
		dir, w := tree(t, content)
		git := func(args ...string) string {
			cmd := exec.Command("git", args...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
			said, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("git %v: %v: %s", args, err, said)
			}
			return string(said)
		}
		git("init", "-q")
		must(t, os.RemoveAll(filepath.Join(dir, ".git/info")))
		want := strings.Split(strings.TrimRight(git("ls-files", "-z", "--others", "--exclude-standard"), "\x00"), "\x00")
		slices.Sort(want)
		if want[0] == "" {
			want = want[1:]
		}
		if got := listed(t, w, ""); !slices.Equal(got, want) {
			t.Errorf("%d: %q:\n got %q\nwant %q", i, ignore, got, want)
		}
	}
}

// A listing that begins further down still honours the files above.
func TestIgnoreFilesAbove(t *testing.T) {
	_, w := tree(t, map[string]string{".gitignore": "*.log\n", "a/.ignore": "!b.log\n/x\n", "a/b/b.log": "", "a/b/c.log": "", "a/x": "", "a/b/x": ""})
	if got := listed(t, w, "a/b"); strings.Join(got, " ") != "a/b/b.log a/b/x" {
		t.Errorf("%v", got)
	}
}

// Each rule costs time and memory, so of many only the first are honoured: a tree of
// ignore files held up a listing for most of a minute, and nothing could end it.
func TestIgnoreFilesAreBounded(t *testing.T) {
	long := strings.Repeat(strings.Repeat("*a", 60)+"\n", 190)
	_, w := tree(t, map[string]string{".gitignore": "*.first\n", "a/.gitignore": long, "a/b/.gitignore": long, "a/b/.ignore": "*.last\n",
		"a/b/x.first": "", "a/b/x.last": "", "c/.ignore": "*.last\n", "c/x.last": ""})
	for dir, want := range map[string]string{"a/b": "a/b/.gitignore a/b/.ignore a/b/x.last", "c": "c/.ignore"} {
		if got := strings.Join(listed(t, w, dir), " "); got != want {
			t.Errorf("%s: %s, want %s", dir, got, want)
		}
	}
}

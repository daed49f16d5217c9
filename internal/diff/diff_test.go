package diff_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/diff"
)

func numbered(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

func at(text, part, new string) diff.Edit {
	return diff.Edit{At: strings.Index(text, part), Len: len(part), New: new}
}

func TestUnified(t *testing.T) {
	ten := numbered(10)
	for _, c := range []struct {
		name, old string
		edits     []diff.Edit
		want      string
	}{
		{"nothing", ten, nil, ""},
		{"the same", ten, []diff.Edit{at(ten, "line 5", "line 5")}, ""},
		{"one word", ten, []diff.Edit{at(ten, "5", "five")},
			"@@ -2,7 +2,7 @@\n line 2\n line 3\n line 4\n-line 5\n+line five\n line 6\n line 7\n line 8\n"},
		{"first line", "a\nb\n", []diff.Edit{at("a\nb\n", "a", "A")}, "@@ -1,2 +1,2 @@\n-a\n+A\n b\n"},
		{"line removed", "a\nb\nc\n", []diff.Edit{at("a\nb\nc\n", "b\n", "")}, "@@ -1,3 +1,2 @@\n a\n-b\n c\n"},
		{"newline removed", "a\nb\nc\n", []diff.Edit{at("a\nb\nc\n", "\nb", "b")}, "@@ -1,3 +1,2 @@\n-a\n-b\n+ab\n c\n"},
		{"everything removed", "a\n", []diff.Edit{{At: 0, Len: 2}}, "@@ -1 +0,0 @@\n-a\n"},
		{"from nothing", "", []diff.Edit{{New: "a\n"}}, "@@ -0,0 +1 @@\n+a\n"},
		{"no last newline", "a\nb", []diff.Edit{at("a\nb", "b", "c")},
			"@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n"},
		{"last newline added", "a", []diff.Edit{{At: 1, New: "\n"}}, "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"},
		{"same lines inside", "x\na\nb\nc\ny\n", []diff.Edit{at("x\na\nb\nc\ny\n", "a\nb\nc", "a\nB\nc")},
			"@@ -1,5 +1,5 @@\n x\n a\n-b\n+B\n c\n y\n"},
		{"windows", "a\r\nb\r\n", []diff.Edit{at("a\r\nb\r\n", "b", "c")}, "@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n"},
	} {
		want := c.want
		if want != "" {
			want = "--- a/f\n+++ b/f\n" + want
		}
		if got := diff.Unified("f", c.old, c.edits); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, want)
		}
	}
}

func TestHunksAreJoinedAndParted(t *testing.T) {
	old := numbered(40)
	for apart, hunks := range map[int]int{1: 1, 6: 1, 7: 1, 8: 2, 20: 2} {
		edits := []diff.Edit{at(old, "line 10\n", "ten\n"), at(old, fmt.Sprintf("line %d\n", 10+apart), "other\n")}
		if got := strings.Count(diff.Unified("f", old, edits), "@@ -"); got != hunks {
			t.Errorf("%d lines apart: %d hunks, want %d", apart, got, hunks)
		}
	}
}

// patched applies a diff and checks everything that it says about the old text.
func patched(t *testing.T, old, patch string) string {
	t.Helper()
	lines := splitAfter(old)
	rest := splitAfter(patch)
	if len(rest) == 0 {
		return old
	}
	var out strings.Builder
	done, written := 0, 0
	for i := 2; i < len(rest); {
		var from, olds, to, news int
		header := strings.NewReplacer("@@ ", "", " @@\n", "").Replace(rest[i])
		for _, f := range []struct {
			text         string
			first, count *int
		}{{strings.Fields(header)[0][1:], &from, &olds}, {strings.Fields(header)[1][1:], &to, &news}} {
			*f.count = 1
			if n, _ := fmt.Sscanf(f.text, "%d,%d", f.first, f.count); n == 0 {
				t.Fatalf("header %q", rest[i])
			}
			if *f.count == 0 {
				*f.first++
			}
		}
		for ; done < from-1; done, written = done+1, written+1 {
			out.WriteString(lines[done])
		}
		if written != to-1 {
			t.Fatalf("%q: the hunk begins at line %d of the new text", rest[i], written+1)
		}
		for i++; olds > 0 || news > 0; i++ {
			kind, text := rest[i][0], rest[i][1:]
			if i+1 < len(rest) && rest[i+1][0] == '\\' {
				text = strings.TrimSuffix(text, "\n")
			}
			if kind != '+' {
				if lines[done] != text {
					t.Fatalf("line %d is %q, the diff says %q", done+1, lines[done], text)
				}
				done, olds = done+1, olds-1
			}
			if kind != '-' {
				out.WriteString(text)
				written, news = written+1, news-1
			}
			if i+1 < len(rest) && rest[i+1][0] == '\\' {
				i++
			}
		}
	}
	return out.String() + strings.Join(lines[done:], "")
}

func splitAfter(text string) []string {
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// randomEdits are some edits that fit old.
func randomEdits(r *rand.Rand, old string) (edits []diff.Edit) {
	for at := r.IntN(len(old) + 1); at <= len(old) && len(edits) < 6; at += r.IntN(12) {
		e := diff.Edit{At: at, Len: r.IntN(min(5, len(old)-at) + 1), New: []string{"", "x", "\n", "x\ny", "a\n"}[r.IntN(5)]}
		edits = append(edits, e)
		at += e.Len
	}
	return edits
}

func FuzzUnified(f *testing.F) {
	f.Add("a\nb\nc\nd\ne\nf\ng\nh\ni\n", uint64(1))
	f.Add("one\r\ntwo\r\n\n\n\nthree", uint64(2))
	f.Fuzz(func(t *testing.T, old string, seed uint64) {
		for i := range uint64(20) {
			edits := randomEdits(rand.New(rand.NewPCG(seed, i)), old)
			if got, want := patched(t, old, diff.Unified("f", old, edits)), diff.Apply(old, edits); got != want {
				t.Fatalf("%q with %v: patched %q, want %q", old, edits, got, want)
			}
		}
	})
}

// What git makes of it is the judge from outside.
func TestGitAppliesIt(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("needs git")
		}
		t.Skip("SKIPPED: needs git")
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		old := numbered(30)[:180+r.IntN(50)]
		edits := randomEdits(r, old)
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte(old), 0o644); err != nil {
			t.Fatal(err)
		}
		patch := diff.Unified("f", old, edits)
		if patch == "" {
			continue
		}
		cmd := exec.Command("git", "apply", "-")
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(patch)
		cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s\n%s", err, said, patch)
		}
		data, _ := os.ReadFile(filepath.Join(dir, "f"))
		if want := diff.Apply(old, edits); string(data) != want {
			t.Errorf("git made %q, want %q", data, want)
		}
	}
}

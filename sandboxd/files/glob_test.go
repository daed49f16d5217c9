package files_test

import (
	"path"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/sandboxd/files"
)

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		glob, name string
		want       bool
	}{
		{"", "anything/at/all", true},
		{"*.go", "a.go", true},
		{"*.go", "x/y/a.go", true},
		{"*.go", "a.gox", false},
		{"*.go", "a.go/b", false},
		{"src/*.go", "src/a.go", true},
		{"src/*.go", "src/x/a.go", false},
		{"src/*.go", "y/src/a.go", false},
		{"src/**/*.go", "src/a.go", true},
		{"src/**/*.go", "src/x/y/a.go", true},
		{"src/**", "src/x/y", true},
		{"src/**", "src", false},
		{"**/b", "b", true},
		{"**/b", "a/b", true},
		{"/a", "a", true},
		{"/a", "b/a", false},
		{"?.txt", "é.txt", true},
		{"?.txt", "ab.txt", false},
		{"[a-c]x", "bx", true},
		{"[!a-c]x", "bx", false},
		{"[^a-c]x", "dx", true},
		{"[]]x", "]x", true},
		{"[!]]x", "ax", true},
		{"a[!b]c", "a/c", false},
		{"[", "[", true},
		{"*.{ts,tsx}", "a.tsx", true},
		{"*.{ts,tsx}", "a.t", false},
		{"{a,b}/c", "b/c", true},
		{"a,b", "a,b", true},
		{`\*`, "*", true},
		{`\*`, "x", false},
		{"a.c", "abc", false},
		{"größe*", "größen", true},
		{"*", "a\nb", true},
		{"(a|b)+$", "(a|b)+$", true},
	} {
		g, err := files.NewGlob(c.glob)
		if err != nil {
			t.Errorf("%q: %v", c.glob, err)
			continue
		}
		if got := g.Match(c.name); got != c.want {
			t.Errorf("%q on %q: %t", c.glob, c.name, got)
		}
	}
}

// Every glob without our own additions means what path.Match says.
func FuzzGlob(f *testing.F) {
	f.Add("a*[b-d]?", "axxce")
	f.Add("[^a]/x", "b/x")
	f.Add("*a*a*a*a*a*a*a*b", strings.Repeat("a", 100))
	f.Fuzz(func(t *testing.T, glob, name string) {
		begun := time.Now()
		g, err := files.NewGlob(glob)
		if err != nil {
			return
		}
		got := g.Match(name)
		if time.Since(begun) > 10*time.Second {
			t.Errorf("%q on %q took %v", glob, name, time.Since(begun))
		}
		// Where both are plain and anchored they must agree; what models also write is not (NewGlob).
		if glob != strings.TrimSpace(glob) || strings.HasPrefix(glob, "./") || strings.HasSuffix(glob, "/") ||
			strings.ContainsAny(glob, "{}\\[],") || strings.Contains(glob, "**") || !strings.Contains(glob, "/") || strings.HasPrefix(glob, "/") || !isText(glob) || !isText(name) {
			return
		}
		if want, err := path.Match(glob, name); err == nil && got != want {
			t.Errorf("%q on %q: %t, path.Match says %t", glob, name, got, want)
		}
	})
}

func isText(s string) bool { return strings.ToValidUTF8(s, "") == s }

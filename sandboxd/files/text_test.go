package files_test

import (
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/diff"
	"github.com/sallyport-dev/sallyport/sandboxd/files"
)

// Pages of lines put together are the text, and their numbers add up.
func FuzzLines(f *testing.F) {
	f.Add("one\ntwo\r\n\nlast", 1)
	f.Add("\n\n\n", 2)
	f.Add("", 1)
	f.Fuzz(func(t *testing.T, text string, size int) {
		size = 1 + (size&0xffff)%50
		_, total, err := files.Lines(text, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.Count(text, "\n"); total != want && (total != want+1 || strings.HasSuffix(text, "\n")) {
			t.Fatalf("%d lines in %q", total, text)
		}
		var got strings.Builder
		for at := 1; at <= total; at += size {
			part, _, err := files.Lines(text, &at, &size)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(part, "\n"); n > size || part == "" {
				t.Fatalf("%d lines from %d on in a page of %d: %q", n, at, size, part)
			}
			got.WriteString(part)
		}
		if got.String() != text {
			t.Fatalf("pages of %d make %q of %q", size, got.String(), text)
		}
		if behind := total + 1; total > 0 {
			if _, _, err := files.Lines(text, &behind, nil); err == nil {
				t.Error("an offset behind the end was accepted")
			}
		}
	})
}

// once reports whether old begins at one place of text, overlapping ones counted.
func once(text, old string) bool { return strings.Index(text, old) == strings.LastIndex(text, old) }

// Replace and Apply do what strings.ReplaceAll does, in files without CRLF.
func FuzzReplace(f *testing.F) {
	f.Add("aaa bab", "a", "bb")
	f.Add("x\ny\nx\n", "x\n", "")
	f.Fuzz(func(t *testing.T, text, old, new string) {
		if strings.Contains(text, "\r") {
			return
		}
		n := strings.Count(text, old)
		for _, all := range []bool{false, true} {
			edits, err := files.Replace(text, old, new, all)
			refused := old == "" || old == new || n == 0 || !all && !once(text, old)
			if (err != nil) != refused {
				t.Fatalf("%q in %q, all %t: %v", old, text, all, err)
			}
			if err == nil && diff.Apply(text, edits) != strings.ReplaceAll(text, old, new) {
				t.Fatalf("%q in %q became %q", old, text, diff.Apply(text, edits))
			}
		}
	})
}

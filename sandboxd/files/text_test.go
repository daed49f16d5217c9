package files_test

import (
	"math"
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
		lines := func(first, most int) (files.Part, error) {
			return files.Lines("f", strings.NewReader(text), first, most)
		}
		whole, err := lines(1, math.MaxInt)
		if err != nil {
			return // no text
		}
		total := whole.Lines
		if want := strings.Count(text, "\n"); total != want && (total != want+1 || strings.HasSuffix(text, "\n")) {
			t.Fatalf("%d lines in %q", total, text)
		}
		var got strings.Builder
		for at := 1; at <= total; at += size {
			part, err := lines(at, size)
			if n := strings.Count(part.Text, "\n"); err != nil || n > size || part.Text == "" || part.Lines != total {
				t.Fatalf("%d lines from %d on in a page of %d: %+v, %v", n, at, size, part, err)
			}
			got.WriteString(part.Text)
		}
		if got.String() != text || whole.Text != text || whole.Size != int64(len(text)) {
			t.Fatalf("pages of %d make %q of %q", size, got.String(), text)
		}
		if _, err := lines(total+1, 1); err == nil && total > 0 {
			t.Error("an offset behind the end was accepted")
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

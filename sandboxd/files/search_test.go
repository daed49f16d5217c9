package files_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/sandboxd/files"
)

// costly is short, and takes microseconds for each byte.
const costly = "(a?){300}b"

// The file would take minutes.
func TestSearchEndsWithItsCaller(t *testing.T) {
	_, w := tree(t, map[string]string{"lines": strings.Repeat(strings.Repeat("a", 50)+"\n", 150_000)})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if found, err := w.Search(ctx, files.Search{Pattern: costly, Limit: 10}); err == nil {
		t.Errorf("nobody waits for it any more, and it searched %d files", found.Searched)
	}
}

// A page has its time, and the next one goes on behind it.
func TestSearchTakesItsTimeAndNoMore(t *testing.T) {
	t.Parallel()
	_, w := tree(t, map[string]string{"lines": strings.Repeat(strings.Repeat("a", 50)+"\n", 150_000) + "b\n"})
	page, err := w.Search(t.Context(), files.Search{Pattern: costly, Limit: 10})
	if err != nil || page.Next == "" || page.Next == "1:lines" || len(page.Matches) > 0 {
		t.Errorf("%+v, %v", page, err)
	}
}

// Of a long line as much is searched as the pattern allows.
func TestSearchOfLongLines(t *testing.T) {
	_, w := tree(t, map[string]string{"line": strings.Repeat("x", 1<<20) + "b"})
	for pattern, want := range map[string]int{"b": 1, "x+b": 1, costly: 0, "x" + costly + "?": 1} {
		found, err := w.Search(t.Context(), files.Search{Pattern: pattern, Limit: 10})
		if err != nil || len(found.Matches) != want {
			t.Errorf("%s: %d matches, %v", pattern, len(found.Matches), err)
		}
	}
	if _, err := w.Search(t.Context(), files.Search{Pattern: "(a?){1000}(b?){1000}(c?){1000}", Limit: 10}); err == nil || !strings.Contains(err.Error(), "repeat") {
		t.Errorf("a pattern of thousands of steps: %v", err)
	}
}

// A byte order mark is no part of the first line, for a pattern and for who reads the match.
func TestSearchPassesOverTheMark(t *testing.T) {
	_, w := tree(t, map[string]string{"marked": "\ufefffirst\r\nsecond\r\n", "plain": "first\nsecond\n"})
	for _, pattern := range []string{"^first", `\Afirst$`, "^second$"} {
		found, err := w.Search(t.Context(), files.Search{Pattern: pattern, Limit: 10, Context: 1})
		if err != nil || len(found.Matches) != 2 || found.Matches[0].Text != found.Matches[1].Text {
			t.Errorf("%s: %+v, %v", pattern, found.Matches, err)
		}
	}
}

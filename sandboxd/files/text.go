package files

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/diff"
)

// maxEdits is how many occurrences one Replace covers.
const maxEdits = 10_000

// Replace lists the edits that put new in the place of old, which must occur
// once unless all of them are meant. Where text has CRLF line endings, \n in
// old and new means CRLF. Errors tell a model what to do.
func Replace(text, old, new string, all bool) ([]diff.Edit, error) {
	if old == "" || old == new {
		return nil, errors.New("old_text must not be empty, and new_text must differ from it; write_file writes a " +
			"whole file")
	}
	asked := old
	// A model writes \n where the file says \r\n.
	if crlf := strings.Count(text, "\r\n"); crlf > 0 &&
		(crlf == strings.Count(text, "\n") || !strings.Contains(text, old)) {
		old, new = toCRLF(old), toCRLF(new)
	}
	count := strings.Count(text, old)
	if count > maxEdits {
		return nil, fmt.Errorf("old_text occurs %d times: at most %d are replaced at once; use sed in run_command",
			count, maxEdits)
	}
	// Asked before anything is built: the product can be a terabyte.
	if size := len(text) + count*(len(new)-len(old)); all && size > MaxFile {
		return nil, fmt.Errorf("the file would be %d bytes: at most 1 MiB is written", size)
	}
	edits := make([]diff.Edit, 0, count)
	for at := 0; ; at += len(old) {
		i := strings.Index(text[at:], old)
		if i < 0 {
			break
		}
		at += i
		edits = append(edits, diff.Edit{At: at, Len: len(old), New: new})
	}
	if len(edits) == 0 {
		return nil, errors.New("old_text does not occur in the file" + nearest(text, asked))
	}
	if lines := occurrences(text, old); len(lines) > 1 && !all {
		return nil, fmt.Errorf("old_text occurs %d times (first at lines %s): add lines around it until it is the "+
			"only one, or set replace_all",
			max(count, len(lines)), strings.Join(lines, ", "))
	}
	return edits, nil
}

// occurrences are the lines at which old begins, up to ten, those that overlap
// too: which of them is meant cannot be known either.
func occurrences(text, old string) (lines []string) {
	for at := 0; len(lines) < 10; at++ {
		i := strings.Index(text[at:], old)
		if i < 0 {
			break
		}
		at += i
		lines = append(lines, fmt.Sprint(1+strings.Count(text[:at], "\n")))
	}
	return lines
}

func toCRLF(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\r\n")
}

// nearest says where old nearly stands and what differs: characters that look
// alike, line ends, white space.
func nearest(text, old string) string {
	if crlf := strings.Count(text, "\r\n"); crlf > 0 &&
		strings.Contains(strings.ReplaceAll(text, "\r\n", "\n"), strings.ReplaceAll(old, "\r\n", "\n")) {
		return fmt.Sprintf(": the file has mixed line ends (%d CRLF among %d), and old_text runs over both kinds: "+
			"replace fewer lines at once, or make them alike with sed -i 's/\\r$//' in run_command", crlf,
			strings.Count(text, "\n"))
	}
	if i := strings.Index(alike(text), alike(old)); i >= 0 && alike(old) != "" {
		return fmt.Sprintf(" in these characters, but near line %d with others that look alike (%s): copy them from "+
			"read_file", 1+strings.Count(alike(text)[:i], "\n"), odd(text, old))
	}
	first, _, _ := strings.Cut(strings.TrimSpace(old), "\n")
	first = strings.TrimSpace(first)
	for i, line := range strings.Split(text, "\n") {
		if first != "" && strings.Contains(line, first) {
			return fmt.Sprintf("; its first line is like line %d: compare the white space and the lines that follow "+
				"with read_file", i+1)
		}
	}
	return ": read the file again, it may have changed"
}

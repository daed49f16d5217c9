package files

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/diff"
)

// maxEdits is how many occurrences one Replace covers.
const maxEdits = 10_000

// Lines cuts limit lines from line offset on (counted from 1) out of text, the
// whole text where both are nil, and counts all of them. A line ends
// with its newline; what follows the last newline, if anything, is a line too.
func Lines(text string, offset, limit *int) (part string, total int, err error) {
	total = strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		total++
	}
	first := 1
	if offset != nil {
		first = *offset
	}
	if first < 1 || limit != nil && *limit < 1 {
		return "", total, errors.New("offset and limit are counted in lines and start at 1")
	}
	if first > max(total, 1) {
		return "", total, fmt.Errorf("offset %d is past the end: the file has %d lines", first, total)
	}
	part = text[skipLines(text, first-1):]
	if limit != nil {
		part = part[:skipLines(part, *limit)]
	}
	return part, total, nil
}

// skipLines is the offset in bytes behind the first n lines of text.
func skipLines(text string, n int) int {
	at := 0
	for ; n > 0 && at < len(text); n-- {
		i := strings.IndexByte(text[at:], '\n')
		if i < 0 {
			return len(text)
		}
		at += i + 1
	}
	return at
}

// Replace lists the edits that put new in the place of old, which must occur
// once unless all of them are meant. Where text has CRLF line endings, \n in
// old and new means CRLF. Errors are words for a model.
func Replace(text, old, new string, all bool) ([]diff.Edit, error) {
	if old == "" || old == new {
		return nil, errors.New("old_text must not be empty, and new_text must differ from it; write_file writes a whole file")
	}
	asked := old
	// A model writes \n where the file says \r\n.
	if crlf := strings.Count(text, "\r\n"); crlf > 0 && (crlf == strings.Count(text, "\n") || !strings.Contains(text, old)) {
		old, new = toCRLF(old), toCRLF(new)
	}
	count := strings.Count(text, old)
	if count > maxEdits {
		return nil, fmt.Errorf("old_text occurs %d times: at most %d are replaced at once; use sed in run_command", count, maxEdits)
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
	switch {
	case len(edits) == 0:
		return nil, errors.New("old_text does not occur in the file" + nearest(text, asked))
	case len(edits) > 1 && !all:
		var at []string
		for _, e := range edits[:min(10, len(edits))] {
			at = append(at, fmt.Sprint(1+strings.Count(text[:e.At], "\n")))
		}
		return nil, fmt.Errorf("old_text occurs %d times (first at lines %s): add lines around it until it is the only one, or set replace_all", len(edits), strings.Join(at, ", "))
	}
	return edits, nil
}

func toCRLF(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\r\n")
}

// nearest says where the first line of old stands apart from its white space:
// the most frequent mistake.
func nearest(text, old string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(old), "\n")
	first = strings.TrimSpace(first)
	for i, line := range strings.Split(text, "\n") {
		if first != "" && strings.Contains(line, first) {
			return fmt.Sprintf("; its first line is like line %d: compare the white space and the lines that follow with read_file", i+1)
		}
	}
	return ": read the file again, it may have changed"
}

// Package diff prints known edits of a text as a unified diff.
package diff

import (
	"fmt"
	"strings"
)

// context is how many unchanged lines stand around a change.
const context = 3

// Edit puts New in the place of the Len bytes at offset At of the old text.
type Edit struct {
	At, Len int
	New     string
}

// Apply makes the edits, which are in order and do not overlap.
func Apply(old string, edits []Edit) string {
	var b strings.Builder
	at := 0
	for _, e := range edits {
		b.WriteString(old[at:e.At])
		b.WriteString(e.New)
		at = e.At + e.Len
	}
	b.WriteString(old[at:])
	return b.String()
}

// line is one line of a diff: kind is a space, a minus or a plus.
type line struct {
	kind byte
	text string
}

// Unified is the difference that the edits make, in the format of diff -u.
func Unified(name, old string, edits []Edit) string {
	lines := compare(old, Apply(old, edits), edits)
	var b strings.Builder
	oldLine, newLine := 1, 1 // numbers of lines[at]
	for at := 0; at < len(lines); {
		begin, end := hunk(lines, at)
		if begin == end {
			break
		}
		if b.Len() == 0 {
			fmt.Fprintf(&b, "--- a/%s\n+++ b/%s\n", name, name)
		}
		oldLine, newLine = oldLine+begin-at, newLine+begin-at
		oldLine, newLine = print(&b, lines[begin:end], oldLine, newLine)
		at = end
	}
	return b.String()
}

// compare lists all lines. A line is unchanged when it lies whole in a part
// between two edits and begins a line on both sides.
func compare(old, new string, edits []Edit) (out []line) {
	oldDone, newDone := 0, 0 // up to here everything is in out
	p, q := 0, 0             // where the unchanged part begins in old and in new
	for i := 0; i <= len(edits); i++ {
		length := len(old) - p
		if i < len(edits) {
			length = edits[i].At - p
		}
		part := old[p : p+length]
		from, to := 0, strings.LastIndexByte(part, '\n')+1
		if !beginsLine(old, p) || !beginsLine(new, q) {
			from = strings.IndexByte(part, '\n') + 1
			if from == 0 {
				from = length
			}
		}
		if i == len(edits) {
			to = length
		}
		if from < to {
			out = replaced(out, split(old[oldDone:p+from]), split(new[newDone:q+from]))
			for _, text := range split(part[from:to]) {
				out = append(out, line{' ', text})
			}
			oldDone, newDone = p+to, q+to
		}
		if i < len(edits) {
			p, q = p+length+edits[i].Len, q+length+len(edits[i].New)
		}
	}
	return replaced(out, split(old[oldDone:]), split(new[newDone:]))
}

func beginsLine(text string, at int) bool { return at == 0 || text[at-1] == '\n' }

func split(text string) []string {
	if text == "" {
		return nil
	}
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// replaced appends the change of lines a into lines b, without the lines that
// both begin or end with.
func replaced(out []line, a, b []string) []line {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		out = append(out, line{' ', a[0]})
		a, b = a[1:], b[1:]
	}
	same := 0
	for same < min(len(a), len(b)) && a[len(a)-1-same] == b[len(b)-1-same] {
		same++
	}
	for _, text := range a[:len(a)-same] {
		out = append(out, line{'-', text})
	}
	for _, text := range b[:len(b)-same] {
		out = append(out, line{'+', text})
	}
	for _, text := range a[len(a)-same:] {
		out = append(out, line{' ', text})
	}
	return out
}

// hunk finds the next changes from at on that stand close together, with the
// lines around them. Without a change begin equals end.
func hunk(lines []line, at int) (begin, end int) {
	first := at
	for first < len(lines) && lines[first].kind == ' ' {
		first++
	}
	if first == len(lines) {
		return at, at
	}
	last := first
	for i := first; i < len(lines) && i <= last+2*context+1; i++ {
		if lines[i].kind != ' ' {
			last = i
		}
	}
	return max(at, first-context), min(len(lines), last+1+context)
}

// print writes one hunk and returns the numbers of the lines behind it. A side
// without lines is numbered by the line before, as diff does.
func print(b *strings.Builder, lines []line, oldLine, newLine int) (int, int) {
	olds, news := 0, 0
	for _, l := range lines {
		if l.kind != '+' {
			olds++
		}
		if l.kind != '-' {
			news++
		}
	}
	fmt.Fprintf(b, "@@ -%s +%s @@\n", span(oldLine, olds), span(newLine, news))
	for _, l := range lines {
		b.WriteByte(l.kind)
		b.WriteString(l.text)
		if !strings.HasSuffix(l.text, "\n") {
			b.WriteString("\n\\ No newline at end of file\n")
		}
	}
	return oldLine + olds, newLine + news
}

func span(first, count int) string {
	switch count {
	case 0:
		return fmt.Sprintf("%d,0", first-1)
	case 1:
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d,%d", first, count)
}

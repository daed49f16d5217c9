package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The bounds of one search, in bytes.
const (
	maxSearched = 8 << 20   // of one file; larger ones are skipped
	maxRead     = 64 << 20  // of all files of one page
	maxFound    = 128 << 10 // of the text of one page
	maxShown    = 400       // of one line
)

// Search says what to search for.
type Search struct {
	Walk
	Pattern    string // RE2, matched against each line
	IgnoreCase bool
	Context    int    // lines shown around a match
	Limit      int    // matches on one page
	Cursor     string // Found.Next of the page before
}

// Match is one line that matches, and what stands around it.
type Match struct {
	Path   string   `json:"path"`
	Line   int      `json:"line" jsonschema:"its number, counted from 1"`
	Text   string   `json:"text" jsonschema:"the line; long ones are cut"`
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
}

// Found is one page of matches.
type Found struct {
	Matches  []Match
	Next     string // Cursor of the next page; empty at the end
	Searched int    // files read for this page
	Skipped  int    // files that are binary, larger than 8 MiB or cannot be read
}

// search is one search at work.
type search struct {
	Search
	re         *regexp.Regexp
	fromLine   int // in the file From
	read, text int // bytes so far
	found      Found
	line       int // where the next page goes on in the file at which this one ended
}

// Search searches the regular files of a walk, up to a page of matches.
func (w *Workspace) Search(ctx context.Context, options Search) (Found, error) {
	s := &search{Search: options, found: Found{Matches: []Match{}}, fromLine: 1}
	if len(options.Pattern) > maxPattern || options.Pattern == "" {
		return Found{}, fmt.Errorf("the pattern must have between 1 and %d bytes", maxPattern)
	}
	pattern := options.Pattern
	if options.IgnoreCase {
		pattern = "(?i:" + pattern + ")"
	}
	_, err := regexp.Compile(options.Pattern) // alone: its own error, and no way out of the group
	if err == nil {
		s.re, err = regexp.Compile(pattern)
	}
	if err != nil {
		return Found{}, fmt.Errorf("the pattern is not a regular expression in RE2 syntax (which has no backreferences and no look-around): %w", err)
	}
	if options.Cursor != "" {
		line, name, ok := strings.Cut(options.Cursor, ":")
		if s.fromLine, err = strconv.Atoi(line); err != nil || !ok || name == "" {
			return Found{}, errors.New("the cursor is not one that search_files gave out")
		}
		s.From = name
	}
	next, _, err := w.walk(ctx, s.Walk, func(name string, d fs.DirEntry) error {
		if !d.Type().IsRegular() {
			return nil
		}
		s.line = 1
		if s.read > maxRead {
			return errStop
		}
		return s.file(w, name)
	})
	if next != "" {
		s.found.Next = fmt.Sprintf("%d:%s", max(1, s.line), next)
	}
	return s.found, err
}

// file searches one file.
func (s *search) file(w *Workspace, name string) error {
	text, ok := w.searchable(name)
	s.read += len(text)
	if !ok {
		s.found.Skipped++
		return nil
	}
	s.found.Searched++
	for at, number := 0, 1; at < len(text); number++ {
		end := lineEnd(text, at)
		line := bytes.TrimRight(text[at:end], "\r\n")
		match := s.re.FindIndex(line)
		if match != nil && (name != s.From || number >= s.fromLine) {
			if len(s.found.Matches) == s.Limit || s.text > maxFound {
				s.line = number
				return errStop
			}
			m := Match{Path: name, Line: number, Text: shown(line, match[0])}
			m.Before, m.After = before(text, at, s.Context), after(text, end, s.Context)
			s.text += len(name) + len(m.Text) + len(strings.Join(m.Before, "")) + len(strings.Join(m.After, ""))
			s.found.Matches = append(s.found.Matches, m)
		}
		at = end
	}
	return nil
}

// lineEnd is the offset behind the line that begins at at.
func lineEnd(text []byte, at int) int {
	if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}

// before are up to n lines that end at the offset at.
func before(text []byte, at, n int) (lines []string) {
	for ; n > 0 && at > 0; n-- {
		begin := bytes.LastIndexByte(text[:at-1], '\n') + 1
		lines = append(lines, shown(bytes.TrimRight(text[begin:at], "\r\n"), 0))
		at = begin
	}
	slices.Reverse(lines)
	return lines
}

// after are up to n lines from the offset at on.
func after(text []byte, at, n int) (lines []string) {
	for ; n > 0 && at < len(text); n-- {
		end := lineEnd(text, at)
		lines = append(lines, shown(bytes.TrimRight(text[at:end], "\r\n"), 0))
		at = end
	}
	return lines
}

// searchable reads a file of text.
func (w *Workspace) searchable(name string) ([]byte, bool) {
	f, info, err := w.openRegular(name)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	if info.Size() > maxSearched {
		return nil, false
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSearched+1))
	return data, err == nil && len(data) <= maxSearched && bytes.IndexByte(data, 0) < 0 && utf8.Valid(data)
}

// shown cuts a long line around the byte at.
func shown(line []byte, at int) string {
	if len(line) <= maxShown {
		return string(line)
	}
	begin := max(0, min(at-maxShown/4, len(line)-maxShown))
	cut := strings.ToValidUTF8(string(line[begin:begin+maxShown]), "")
	if begin > 0 {
		cut = "…" + cut
	}
	if begin+maxShown < len(line) {
		cut += "…"
	}
	return cut
}

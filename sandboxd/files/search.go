package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The bounds of one search, in bytes.
const (
	maxSearched = 8 << 20   // of one file; larger ones are skipped
	maxRead     = 64 << 20  // of all files of one page
	maxFound    = 128 << 10 // of the text of one page
	maxShown    = 400       // of one line
)

// RE2 takes linear time, but linear in line and pattern: a short pattern such
// as (a?){1000} costs 40 µs for each byte, and nothing can interrupt it within
// a line.
const (
	maxProgram = 10_000   // instructions of a compiled pattern
	maxMatch   = 32 << 20 // instructions times bytes of one line; the rest of a longer one is not searched
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
	Notices  []string
}

// search is one search at work.
type search struct {
	Search
	ctx        context.Context
	deadline   time.Time
	re         *regexp.Regexp
	longest    int // bytes of a line that are searched
	fromLine   int // in the file From
	read, text int // bytes so far
	found      Found
	missing    gaps
	line       int // where the next page goes on in the file at which this one ended
}

// Search searches the regular files of a walk, up to a page of matches.
func (w *Workspace) Search(ctx context.Context, options Search) (Found, error) {
	s := &search{Search: options, ctx: ctx, deadline: time.Now().Add(maxWalk), found: Found{Matches: []Match{}},
		fromLine: 1}
	if err := s.compile(); err != nil {
		return Found{}, err
	}
	if options.Cursor != "" {
		line, name, _ := strings.Cut(options.Cursor, ":")
		number, err := strconv.Atoi(line)
		if err != nil || name == "" {
			return Found{}, errors.New("the cursor is not one that search_files gave out")
		}
		s.fromLine, s.From = number, name
	}
	next, err := w.walk(ctx, s.Walk, &s.missing, func(name string, d fs.DirEntry) error {
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
	s.found.Notices = s.missing.Notices()
	if err == nil && s.found.Searched == 0 && next == "" {
		err = w.oneFile(options.Dir, s.found.Notices)
	}
	return s.found, err
}

// oneFile is why the only file that was meant was not searched.
func (w *Workspace) oneFile(name string, notices []string) error {
	if name == "" {
		return nil
	}
	switch info, err := w.root.Stat(name); {
	case err != nil || info.IsDir():
		return nil
	case !info.Mode().IsRegular():
		return notRegular(name, info)
	case len(notices) > 0:
		return fmt.Errorf("%s was not searched. %s Use grep -a in run_command", quote(name), strings.Join(notices, " "))
	}
	return nil
}

// compile reads the pattern.
func (s *search) compile() error {
	if len(s.Pattern) > maxPattern || s.Pattern == "" {
		return fmt.Errorf("the pattern must have between 1 and %d bytes", maxPattern)
	}
	if strings.Contains(strings.ReplaceAll(s.Pattern, `\\`, ""), `\n`) || strings.Contains(s.Pattern, "\n") {
		return errors.New("the pattern contains a newline, but each line is matched by itself: search for one of the " +
			"lines (context shows those around it), or use grep -Pzo in run_command")
	}
	flags := syntax.Perl
	if s.IgnoreCase {
		flags |= syntax.FoldCase
	}
	tree, err := syntax.Parse(s.Pattern, flags)
	if err != nil {
		return fmt.Errorf("the pattern is not a regular expression in RE2 syntax (which has no backreferences and no "+
			"look-around): %w", err)
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil || len(program.Inst) > maxProgram {
		return errors.New("the pattern is too large once it is compiled: use smaller repeat counts")
	}
	s.longest = maxMatch / len(program.Inst)
	s.re, err = regexp.Compile(tree.String())
	return err
}

// file searches one file.
func (s *search) file(w *Workspace, name string) error {
	text, gap := w.searchable(name)
	s.read += len(text)
	if gap != "" {
		s.found.Skipped++
		s.missing.add(gap, name)
		return nil
	}
	s.found.Searched++
	cut := false
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // a line of its own begins behind it
	for at, number := 0, 1; at < len(text); number++ {
		end := lineEnd(text, at)
		line := bytes.TrimRight(text[at:end], "\r\n")
		if name == s.From && number < s.fromLine {
			at = end
			continue
		}
		if len(line) > s.longest && !cut {
			s.missing.add(gapLine, name)
			cut = true
		}
		if match := s.re.FindIndex(line[:min(len(line), s.longest)]); match != nil {
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
		switch {
		case s.ctx.Err() != nil:
			return s.ctx.Err()
		case at < len(text) && time.Now().After(s.deadline):
			s.line = number + 1
			return errStop
		}
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

// searchable reads a file of text, or says why it cannot be searched.
func (w *Workspace) searchable(name string) (data []byte, gap string) {
	f, info, err := w.openRegular(name)
	if err != nil {
		return nil, gapFile
	}
	defer f.Close()
	if info.Size() > maxSearched {
		return nil, gapSize
	}
	var buf bytes.Buffer
	buf.Grow(int(info.Size()) + bytes.MinRead) // as much as it takes, not twice
	_, err = buf.ReadFrom(io.LimitReader(f, maxSearched+1))
	data = buf.Bytes()
	switch {
	case err != nil:
		return data, gapFile
	case len(data) > maxSearched:
		return data, gapSize
	}
	return data, encodingGap(data)
}

// encodingGap says why data is not text.
func encodingGap(data []byte) string {
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")):
		return gapUTF16
	case bytes.IndexByte(data, 0) >= 0:
		return gapBinary
	case !utf8.Valid(data):
		return gapEncoding
	}
	return ""
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

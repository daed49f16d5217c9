package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// What is found wrong with a chain.
const (
	Changed   = "changed"   // a record does not have the content it was written with
	Removed   = "removed"   // records are missing between two that are there
	Reordered = "reordered" // records stand in another order than they were written in
	Inserted  = "inserted"  // a line that the writer did not write
	Cut       = "cut"       // records at the end are missing
	Rebuilt   = "rebuilt"   // records do not fit a signed checkpoint, or the signatures are gone
)

// A Finding is the first thing that is wrong with a chain.
type Finding struct {
	Kind   string // of the words above
	File   string // where
	Line   int    // from 1; 0 where no line can be named
	Detail string // which records, for people
}

// String says it in one line.
func (f *Finding) String() string {
	if f.Line == 0 {
		return fmt.Sprintf("%s: %s: %s", f.File, f.Kind, f.Detail)
	}
	return fmt.Sprintf("%s:%d: %s: %s", f.File, f.Line, f.Kind, f.Detail)
}

// A Report is what Verify found.
type Report struct {
	Key      string   // the name of the key whose checkpoints were checked
	First    uint64   // the first record that is there; more than 1 after retention
	Last     uint64   // the last one
	Signed   uint64   // up to here a checkpoint beside the file covers the records
	Anchored uint64   // up to here an anchor from elsewhere does
	Torn     bool     // the last line is unfinished: a writer was interrupted, which is no tampering
	Open     int      // begins without their end: running, or interrupted
	Finding  *Finding // nil if nothing is wrong
}

// VerifyOptions say what to check against besides what lies beside the file.
type VerifyOptions struct {
	Anchors string // a directory (MCP_ANCHOR_DIR) or a file of checkpoints that were kept elsewhere; "" none
	Key     string // a copy of FILE.pub that was kept elsewhere; "" takes the one beside the file
}

// Verify reads the whole chain of file. An error means that it could not be
// checked; what is wrong with it is the report's Finding, the first one.
//
// The chain may be written meanwhile; where a rotation comes in between, it is
// read again, and once more where signatures seem to be missing: a start may have
// come between reading them and the records.
func Verify(file string, o VerifyOptions) (Report, error) {
	dir, name := os.DirFS(filepath.Dir(file)), filepath.Base(file)
	for again := true; ; again = false {
		before, _ := segments(dir, name)
		report, err := verify(file, o)
		if again && report.Finding != nil && report.Finding.Kind == Rebuilt {
			continue
		}
		if after, _ := segments(dir, name); slices.Equal(before, after) {
			return report, err
		}
	}
}

func verify(file string, o VerifyOptions) (Report, error) {
	v := &verifier{file: file, opens: map[uint64]bool{}, prunes: map[uint64]hash{}}
	if err := v.readPoints(o); err != nil {
		return v.report, err
	}
	if v.report.Finding == nil {
		err := Lines(file, v.line)
		if err != nil && !(errors.Is(err, os.ErrNotExist) && len(v.points) > 0) { // then finish says what is gone
			return v.report, err
		}
	}
	if v.report.Finding == nil {
		v.finish()
	}
	v.report.Open = len(v.opens)
	return v.report, nil
}

type verifier struct {
	file     string
	report   Report
	points   []point // the signed checkpoints, then the anchors
	wanted   map[uint64][]point
	first    Line // the first line
	last     Line // the last line that was right
	held     *Line
	heldErr  error
	prev     hash
	started  uint64 // the last start that is there
	called   bool   // something was recorded since
	opens    map[uint64]bool
	prunes   map[uint64]hash
	prunedAt hash // what the first record that is there names as its predecessor
}

// A point is a checkpoint and where it was found.
type point struct {
	Checkpoint
	from   string
	anchor bool
}

func (v *verifier) found(kind string, at Line, format string, args ...any) bool {
	if v.report.Finding == nil {
		v.report.Finding = &Finding{kind, at.File, at.Number, fmt.Sprintf(format, args...)}
	}
	return false
}

// readPoints reads the public key, the checkpoints and the anchors.
func (v *verifier) readPoints(o VerifyOptions) error {
	path := v.file + pubSuffix
	if o.Key != "" {
		path = o.Key
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("the key that checks this chain: %w", err)
	}
	key, err := ParsePublicKey(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	v.report.Key = key.Name
	if beside, err := os.ReadFile(v.file + pubSuffix); err != nil || strings.TrimSpace(string(beside)) != key.String() {
		v.found(Rebuilt, Line{File: v.file + pubSuffix}, "it is not the key that was kept elsewhere")
	}
	if err := v.notes(key, v.file+pointsSuffix, false); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if o.Anchors != "" {
		if err := v.anchors(key, o.Anchors); err != nil {
			return err
		}
	}
	v.wanted = map[uint64][]point{}
	for _, p := range v.points {
		v.wanted[p.Seq] = append(v.wanted[p.Seq], p)
	}
	return nil
}

func (v *verifier) anchors(key PublicKey, path string) error {
	if info, err := os.Stat(path); err != nil {
		return err
	} else if info.IsDir() {
		path = filepath.Join(path, anchorName(key.Name))
		if kept, err := os.ReadFile(path + pubSuffix); err == nil && strings.TrimSpace(string(kept)) != key.String() {
			v.found(Rebuilt, Line{File: v.file + pubSuffix}, "it is not the key beside the anchors")
		}
		path += ".anchors"
	}
	err := v.notes(key, path, true)
	if errors.Is(err, os.ErrNotExist) {
		v.found(Rebuilt, Line{File: v.file + pubSuffix}, "no anchor was ever made with this key (there is no %s)", path)
		return nil
	}
	return err
}

func (v *verifier) notes(key PublicKey, path string, anchor bool) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	notes, rest := splitNotes(string(text))
	if anchor && rest != "" { // copied by hand, without the empty line at the end
		notes = append(notes, strings.TrimRight(rest, "\n")+"\n")
	}
	for i, note := range notes {
		c, err := key.Open(note)
		if err != nil {
			v.found(Changed, Line{File: path}, "checkpoint %d of %d: %v", i+1, len(notes), err)
			return nil
		}
		v.points = append(v.points, point{c, path, anchor})
	}
	return nil
}

// line checks the next line. A line that is no record is held until the next
// one shows whether it stands in a record's place or between two.
func (v *verifier) line(at Line) bool {
	if !at.Whole && at.File == v.file {
		v.report.Torn = true
		return v.held == nil || v.settleHeld(nil)
	}
	at.Text = append([]byte(nil), at.Text...)
	r, sum, err := decode(at.Text)
	if v.held != nil {
		return v.settleHeld(&r)
	}
	if err != nil {
		v.held, v.heldErr = &at, err
		return true
	}
	if v.report.First == 0 {
		v.report.First, v.report.Last, v.first = r.Seq, r.Seq-1, at
		if r.Seq > 1 {
			_ = decodeHash(r.Prev, &v.prev)
			v.prunedAt = v.prev
		}
	}
	if !v.inOrder(at, r) || !v.checkPoints(at, r.Seq, sum) {
		return false
	}
	v.remember(r)
	v.report.Last, v.prev, v.last = r.Seq, sum, at
	return true
}

// settleHeld decides what the held line is, by what follows it.
func (v *verifier) settleHeld(next *Record) bool {
	expected := v.report.Last + 1
	if next != nil && next.Seq == expected {
		return v.found(Inserted, *v.held, "this line stands between records %d and %d: %v", v.report.Last, expected,
			v.heldErr)
	}
	return v.found(Changed, *v.held, "this line stands in the place of record %d: %v", expected, v.heldErr)
}

// inOrder compares a record with the one before it.
func (v *verifier) inOrder(at Line, r Record) bool {
	expected := v.report.Last + 1
	switch {
	case r.Seq < v.report.First:
		return v.found(Reordered, v.first, "record %d stands here, and record %d further down", v.report.First, r.Seq)
	case r.Seq < expected:
		return v.found(Inserted, at, "record %d is there a second time or comes after %d: it was inserted or moved",
			r.Seq, v.report.Last)
	case r.Seq > expected && v.later(at, expected):
		return v.found(Reordered, at, "record %d stands here, and record %d further down", r.Seq, expected)
	case r.Seq > expected:
		return v.found(Removed, at, "records %d to %d are missing before this line", expected, r.Seq-1)
	case r.Prev != v.prev.String():
		return v.found(Changed, v.last, "record %d does not have the hash that record %d (line %d) names: one of the "+
			"two was changed and its hash computed again",
			v.report.Last, r.Seq, at.Number)
	}
	return true
}

// later reports whether the record seq comes somewhere after at.
func (v *verifier) later(at Line, seq uint64) (found bool) {
	passed := false
	_ = Lines(v.file, func(l Line) bool {
		if r, ok := l.Record(); passed && ok && r.Seq == seq {
			found = true
		}
		passed = passed || l.File == at.File && l.Number == at.Number
		return !found
	})
	return found
}

func (v *verifier) checkPoints(at Line, seq uint64, sum hash) bool {
	for _, p := range v.wanted[seq] {
		if p.Head != sum {
			return v.found(Rebuilt, at, "record %d is not the one that was signed (%s, %s)", seq, p.from,
				p.Time.UTC().Format("2006-01-02 15:04:05"))
		}
		if p.anchor {
			v.report.Anchored = seq
		} else {
			v.report.Signed = seq
		}
	}
	return true
}

func (v *verifier) remember(r Record) {
	switch r.Kind {
	case KindOpen:
		v.called, v.started = false, r.Seq
	case KindBegin, KindEnd, KindRefused, KindEvent:
		v.called = true
	}
	switch r.Kind {
	case KindBegin:
		v.opens[r.Seq] = true
	case KindEnd:
		delete(v.opens, r.Begin)
	case KindPrune:
		var h hash
		_ = decodeHash(r.ThroughHash, &h)
		v.prunes[r.Through] = h
	}
}

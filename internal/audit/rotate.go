package audit

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// segmentName is FILE.N, N being the sequence number of its first record in 16
// digits, so that names sort like records.
func segmentName(name string, first uint64) string { return fmt.Sprintf("%s.%016d", name, first) }

// segmentStart reads the number out of a segment's name.
func segmentStart(name, segment string) (first uint64, ok bool) {
	digits, ok := strings.CutPrefix(segment, name+".")
	if !ok || len(digits) != 16 {
		return 0, false
	}
	first, err := strconv.ParseUint(digits, 10, 64)
	return first, err == nil
}

// segments returns the names of the chain's files, the oldest first, the
// active one last.
func segments(dir fs.FS, name string) (names []string, err error) {
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		return nil, err
	}
	active := false
	for _, e := range entries {
		if _, ok := segmentStart(name, e.Name()); ok {
			names = append(names, e.Name())
		}
		active = active || e.Name() == name
	}
	slices.Sort(names)
	if active {
		names = append(names, name)
	}
	return names, nil
}

// rotate closes the active segment under its own name and begins another one;
// the chain goes on over it. If that fails, the active one simply grows. The
// caller holds mu.
func (l *Log) rotate() {
	if err := l.nextSegment(); err != nil {
		l.opts.Log.Error("the audit file could not be rotated; it grows on", "file", l.opts.File, "error", err)
		return
	}
	l.kick()
	if err := l.prune(); err != nil {
		l.opts.Log.Error("old audit records could not be removed", "file", l.opts.File, "error", err)
	}
}

func (l *Log) nextSegment() error {
	if err := l.ownFolder(); err != nil {
		return err
	}
	if err := l.file.Sync(); err != nil {
		return err
	}
	_ = l.file.Truncate(l.size) // gives back room that was reserved
	closed := segmentName(l.name, l.first)
	if _, err := l.dir.Lstat(closed); err == nil {
		return fmt.Errorf("%s is there already", closed)
	}
	if err := l.dir.Rename(l.name, closed); err != nil {
		return err
	}
	next, err := l.create("", os.O_RDWR|os.O_APPEND|os.O_EXCL)
	if err != nil {
		return join(err, l.dir.Rename(closed, l.name))
	}
	_ = l.folder.Sync()
	_ = l.file.Close()
	l.file, l.first, l.size, l.reserved = next, l.seq+1, 0, 0
	return nil
}

func join(err, other error) error {
	if other != nil {
		return fmt.Errorf("%w; and %w", err, other)
	}
	return err
}

// prune removes the oldest segments until Keep are left. The record that says
// so is written before, so that what is missing is always explained. The
// caller holds mu.
func (l *Log) prune() error {
	names, err := segments(l.dir.FS(), l.name)
	if err != nil {
		return err
	}
	for len(names) > l.opts.Keep+1 {
		old := names[0]
		l.ownFile(old)
		f, err := l.dir.Open(old)
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err != nil {
			return join(err, f.Close())
		}
		seq, head, err := lastRecord(f, info.Size())
		_ = f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", old, err)
		}
		if err := l.append(Record{Kind: KindPrune, Through: seq, ThroughHash: head.String()}); err != nil {
			return err
		}
		if err := l.dir.Remove(old); err != nil {
			return err
		}
		l.pruned = seq
		names = names[1:]
	}
	return nil
}

package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// readEnd returns the last bytes of a file, at least one whole line of them.
func readEnd(f io.ReaderAt, size int64) ([]byte, error) {
	from := max(0, size-2*maxLine)
	buf := make([]byte, size-from)
	if _, err := f.ReadAt(buf, from); err != nil && err != io.EOF {
		return nil, err
	}
	if from > 0 && bytes.IndexByte(buf, '\n') < 0 {
		return nil, errors.New("its last line is longer than any record: it is no chain of this format")
	}
	return buf, nil
}

// lastRecord reads the number and hash of the last record of a segment.
func lastRecord(f io.ReaderAt, size int64) (seq uint64, head hash, err error) {
	buf, err := readEnd(f, size)
	if err != nil {
		return 0, hash{}, err
	}
	buf = bytes.TrimSuffix(buf, []byte("\n"))
	r, sum, err := decode(buf[bytes.LastIndexByte(buf, '\n')+1:])
	if err != nil {
		return 0, hash{}, fmt.Errorf("its last line: %w; %s", err, anew)
	}
	return r.Seq, sum, nil
}

// firstRecord reads the number of the first record of a segment.
func firstRecord(f io.ReaderAt) (uint64, error) {
	line, err := bufio.NewReaderSize(io.NewSectionReader(f, 0, maxLine), 64<<10).ReadBytes('\n')
	if err != nil {
		return 0, fmt.Errorf("its first line: %w", err)
	}
	r, _, err := decode(bytes.TrimSuffix(line, []byte("\n")))
	if err != nil {
		return 0, fmt.Errorf("its first line: %w", err)
	}
	return r.Seq, nil
}

// A Line is one line of a chain as it stands in its file.
type Line struct {
	File   string // the segment's path
	Number int    // from 1
	Text   []byte // without the newline
	Whole  bool   // it had a newline
}

// Lines calls each with every line of the chain of file, the oldest first,
// until it returns false. The lines are not checked.
func Lines(file string, each func(Line) bool) error { return linesFrom(file, 0, each) }

// linesFrom is Lines without the segments that end before record seq.
func linesFrom(file string, seq uint64, each func(Line) bool) error {
	folder := filepath.Dir(file)
	names, err := segments(os.DirFS(folder), filepath.Base(file))
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("%s: %w", file, fs.ErrNotExist)
	}
	for i, name := range names {
		if i+1 < len(names) {
			if next, ok := segmentStart(filepath.Base(file), names[i+1]); ok && next <= seq {
				continue
			}
		}
		more, err := segmentLines(filepath.Join(folder, name), each)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

func segmentLines(path string, each func(Line) bool) (more bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 64<<10)
	for n := 1; ; n++ {
		text, err := r.ReadBytes('\n')
		if err == io.EOF && len(text) == 0 {
			return true, nil
		}
		if err != nil && err != io.EOF {
			return false, err
		}
		line := Line{path, n, bytes.TrimSuffix(text, []byte("\n")), err == nil}
		if !each(line) {
			return false, nil
		}
	}
}

// Record decodes a line, whether or not its hash fits.
func (l Line) Record() (Record, bool) {
	r, _, err := decode(l.Text)
	return r, err == nil || errors.Is(err, errHash)
}

// Tail returns at most n of the newest records of file, the oldest first; what it reads
// is bounded, however long the chain. They are not checked.
func Tail(file string, n int) (list []Record, err error) {
	folder := filepath.Dir(file)
	names, err := segments(os.DirFS(folder), filepath.Base(file))
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("%s: %w", file, fs.ErrNotExist)
	}
	for i := len(names) - 1; err == nil && i >= 0 && len(list) < n; i-- {
		var older []Record
		older, err = segmentTail(filepath.Join(folder, names[i]))
		list = append(older, list...)
	}
	return list[max(0, len(list)-n):], err
}

// segmentTail returns the records at the end of one segment.
func segmentTail(path string) (list []Record, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	buf, err := readEnd(f, info.Size())
	if int64(len(buf)) < info.Size() { // its first line is cut
		buf = buf[bytes.IndexByte(buf, '\n')+1:]
	}
	for line := range bytes.Lines(buf) {
		l := Line{Text: bytes.TrimSuffix(line, []byte("\n"))}
		if r, ok := l.Record(); ok && len(l.Text) < len(line) {
			list = append(list, r)
		}
	}
	return list, err
}

// After calls each with the records after number seq.
func After(file string, seq uint64, each func(Line, Record)) error {
	return linesFrom(file, seq+1, func(l Line) bool {
		if r, ok := l.Record(); ok && l.Whole && r.Seq > seq {
			each(l, r)
			seq = r.Seq
		}
		return true
	})
}

// Newest returns the newest signed checkpoint of file, once its signature was
// checked.
func Newest(file string) (note string, err error) {
	pub, err := os.ReadFile(file + pubSuffix)
	if err != nil {
		return "", err
	}
	key, err := ParsePublicKey(string(pub))
	if err != nil {
		return "", fmt.Errorf("%s: %w", file+pubSuffix, err)
	}
	text, err := os.ReadFile(file + pointsSuffix)
	if err != nil {
		return "", err
	}
	notes, _ := splitNotes(string(text))
	if len(notes) == 0 {
		return "", errors.New("there is no checkpoint yet")
	}
	note = notes[len(notes)-1]
	_, err = key.Open(note)
	return note, err
}

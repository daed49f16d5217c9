package files

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"syscall"
)

// MaxFile is the most decoded content that one call reads or writes, in bytes.
const MaxFile = 1 << 20

// Read reads one whole regular file of valid UTF-8, at most MaxFile long.
func (w *Workspace) Read(name string) (string, error) {
	if err := w.checkPath(name); err != nil {
		return "", err
	}
	f, info, err := w.openRegular(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info.Size() > MaxFile {
		return "", tooLarge(name, info.Size())
	}
	// The size is only what it was: the file may be growing.
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return "", explain(name, err)
	}
	if len(data) > MaxFile {
		return "", tooLarge(name, int64(len(data)))
	}
	if err := checkText(name, data); err != nil {
		return "", err
	}
	return string(data), nil
}

// checkText refuses what is no text, and says what it is.
func checkText(name string, data []byte) error {
	switch encodingGap(data) {
	case gapUTF16:
		return fmt.Errorf("%s is UTF-16 text (%d bytes): read it with `iconv -f UTF-16 -t UTF-8` in run_command",
			quote(name), len(data))
	case gapBinary:
		return fmt.Errorf("%s is binary, it contains NUL bytes (%d bytes): look at it with run_command, for example "+
			"with `file`, `xxd` or `strings`", quote(name), len(data))
	case gapEncoding:
		return fmt.Errorf("%s is not valid UTF-8 text (%d bytes): look at it with run_command, for example with "+
			"`file`, `xxd` or `iconv -f LATIN1 -t UTF-8`", quote(name), len(data))
	}
	return nil
}

// maxRanged is the largest file of which a range of lines is read, in bytes.
const maxRanged = 256 << 20

// Part is what ReadLines found.
type Part struct {
	Text  string
	Size  int64 // of the whole file, in bytes
	Lines int   // of the whole file
}

// ReadLines reads limit lines from line offset on (counted from 1) of a regular
// file of valid UTF-8, the whole file where both are nil: at most MaxFile of it.
// The file itself may be larger then.
func (w *Workspace) ReadLines(name string, offset, limit *int) (Part, error) {
	if offset == nil && limit == nil {
		text, err := w.Read(name)
		lines := strings.Count(text, "\n")
		if text != "" && !strings.HasSuffix(text, "\n") {
			lines++
		}
		return Part{text, int64(len(text)), lines}, err
	}
	if err := w.checkPath(name); err != nil {
		return Part{}, err
	}
	f, info, err := w.openRegular(name)
	if err != nil {
		return Part{}, err
	}
	defer f.Close()
	if info.Size() > maxRanged {
		return Part{}, fmt.Errorf("%s is %d bytes: above 256 MiB take a part of it with run_command, for example "+
			"`sed -n 1,200p`", quote(name), info.Size())
	}
	first, most := 1, math.MaxInt
	if offset != nil {
		first = *offset
	}
	if limit != nil {
		most = *limit
	}
	if first < 1 || most < 1 {
		return Part{}, errors.New("offset and limit are counted in lines and start at 1")
	}
	return Lines(name, f, first, most)
}

// Lines counts all lines of f, the file name, and keeps most of them from first on
// (counted from 1), at most MaxFile bytes. A line ends with its newline; what follows
// the last newline, if anything, is a line too.
func Lines(name string, f io.Reader, first, most int) (p Part, err error) {
	var kept bytes.Buffer
	r := bufio.NewReaderSize(io.LimitReader(f, maxRanged), 64<<10)
	for begun := false; ; {
		chunk, err := r.ReadSlice('\n')
		p.Size += int64(len(chunk))
		if len(chunk) > 0 && !begun {
			p.Lines++
		}
		if p.Lines >= first && p.Lines-first < most {
			if kept.Len()+len(chunk) > MaxFile {
				return p, fmt.Errorf("the lines of %s from %d on are more than 1 MiB: ask for fewer (limit), or cut "+
					"long ones with run_command, for example `cut -c 1-500`",
					quote(name), first)
			}
			kept.Write(chunk)
		}
		begun = err == bufio.ErrBufferFull // the line goes on
		if err == io.EOF {
			break
		}
		if err != nil && !begun {
			return p, explain(name, err)
		}
	}
	if first > max(p.Lines, 1) {
		return p, fmt.Errorf("offset %d is past the end: the file has %d lines", first, p.Lines)
	}
	p.Text = kept.String()
	return p, checkText(name, kept.Bytes())
}

// openRegular opens name for reading without ever waiting. O_NONBLOCK keeps a
// FIFO or a leased file from holding a thread; the look before it keeps devices
// from being opened at all, and the one after it is on what was really opened.
func (w *Workspace) openRegular(name string) (*os.File, os.FileInfo, error) {
	info, err := w.root.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		return nil, nil, notRegular(name, info)
	}
	f, err := w.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, explain(name, err)
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = notRegular(name, info)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func notRegular(name string, info os.FileInfo) error {
	return fmt.Errorf("%s is %s: only regular files can be read and written", quote(name), kind(info.Mode()))
}

func tooLarge(name string, size int64) error {
	return fmt.Errorf("%s is larger than 1 MiB (%d bytes): read a range of its lines (read_file with offset and "+
		"limit), or see or change a part of it with run_command, for example `grep -n`, `tail` or `sed -i`",
		quote(name), size)
}

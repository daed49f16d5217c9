package files

import (
	"fmt"
	"io"
	"os"
	"syscall"
	"unicode/utf8"
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
	if !utf8.Valid(data) {
		return "", fmt.Errorf("%s is not valid UTF-8 text (%d bytes): look at it with run_command, for example with `file`, `xxd` or `iconv`", quote(name), len(data))
	}
	return string(data), nil
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
	return fmt.Errorf("%s is larger than 1 MiB (%d bytes): take a part of it with run_command, for example `head`, `tail`, `sed -n 1,200p` or `grep -n`", quote(name), size)
}

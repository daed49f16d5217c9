package client

import (
	"cmp"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/internal/terminal"
)

// Fold breaks a row for the terminal that w is, which would break it itself, without the
// blanks that set its continuation apart from a row of ours. Elsewhere a row is one line.
func Fold(w io.Writer, row string) string {
	f, ok := w.(*os.File)
	if !ok {
		return row
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return row
	}
	return terminal.WrapAt(row, max(16, cmp.Or(int(size.Col), 80)))
}

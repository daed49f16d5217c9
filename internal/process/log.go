package process

import (
	"io"
	"log/slog"
	"os"

	"golang.org/x/sys/unix"
)

// NewLogger logs to w: text where a person reads it, on a terminal, else JSON.
func NewLogger(w io.Writer) *slog.Logger {
	if f, ok := w.(*os.File); ok {
		if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err == nil {
			return slog.New(slog.NewTextHandler(w, nil))
		}
	}
	return slog.New(slog.NewJSONHandler(w, nil))
}

package process

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"unicode"
	"unicode/utf16"

	"golang.org/x/sys/unix"
)

// NewLogger logs to w: text where a person reads it, on a terminal, else JSON.
func NewLogger(w io.Writer) *slog.Logger {
	if f, ok := w.(*os.File); ok {
		if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err == nil {
			return slog.New(slog.NewTextHandler(w, nil))
		}
	}
	return slog.New(slog.NewJSONHandler(printable{w}, nil))
}

// printable writes JSON with each character that does not print as \uXXXX. Logs hold
// text of others, a person may read them on a terminal later ("docker compose logs"),
// and slog leaves U+009B, which some terminals obey, and U+202E as they are.
type printable struct{ io.Writer }

// Write writes one record, which ends with a line break.
func (p printable) Write(record []byte) (int, error) {
	var b strings.Builder
	for _, r := range string(record) {
		switch {
		case unicode.IsPrint(r) || r == '\n':
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	if _, err := io.WriteString(p.Writer, b.String()); err != nil {
		return 0, err
	}
	return len(record), nil
}

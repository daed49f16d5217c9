package watch

import (
	"context"
	"errors"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/internal/terminal"
)

// A tty is the terminal in raw mode, on its alternate screen.
type tty struct {
	file *os.File
	old  unix.Termios
}

func openTerminal() (*tty, error) {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, errors.New("there is no terminal here: use sallyport approve, ps, sessions")
	}
	old, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	t := &tty{f, *old}
	raw := *old
	raw.Iflag &^= unix.BRKINT | unix.ICRNL | unix.INPCK | unix.ISTRIP | unix.IXON
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ICANON | unix.IEXTEN | unix.ISIG
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, &raw); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	_, err = f.WriteString("\x1b[?1049h\x1b[?25l\x1b[2J") // alternate screen, no cursor, cleared
	return t, err
}

// restore gives the terminal back as it was.
func (t *tty) restore() {
	_, _ = t.file.WriteString("\x1b[?25h\x1b[?1049l")
	_ = unix.IoctlSetTermios(int(t.file.Fd()), unix.TCSETS, &t.old)
	_ = t.file.Close()
}

// size is 80 by 24 where the terminal does not say.
func (t *tty) size() (width, height int) {
	w, err := unix.IoctlGetWinsize(int(t.file.Fd()), unix.TIOCGWINSZ)
	if err != nil || w.Col < 20 || w.Row < 8 {
		return 80, 24
	}
	return int(w.Col), int(w.Row)
}

// draw writes the lines, which are no wider than the terminal.
func (t *tty) draw(lines []string) error {
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line)
		b.WriteString("\x1b[K") // clears the rest of the line
	}
	b.WriteString("\x1b[J")
	_, err := t.file.WriteString(b.String())
	return err
}

// Keys that are no characters.
const (
	keyUp    = "up"
	keyDown  = "down"
	keyPgUp  = "pgup"
	keyPgDn  = "pgdn"
	keyEnter = "enter"
	keyEsc   = "esc"
	keyBack  = "backspace"
)

var sequences = map[string]string{
	"\x1b[A": keyUp, "\x1b[B": keyDown, "\x1bOA": keyUp, "\x1bOB": keyDown, "\x1b[5~": keyPgUp, "\x1b[6~": keyPgDn,
	"\r": keyEnter, "\n": keyEnter, "\x1b": keyEsc, "\x7f": keyBack, "\b": keyBack, "\x03": "q",
}

// keys reads keys until the terminal or ctx ends.
func (t *tty) keys(ctx context.Context) <-chan string {
	out := make(chan string)
	go func() {
		defer close(out)
		buf := make([]byte, 64)
		for {
			n, err := t.file.Read(buf)
			if err != nil {
				return
			}
			for _, k := range split(string(buf[:n])) {
				select {
				case out <- k:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return out
}

// split takes what was read at once apart into keys.
func split(in string) (keys []string) {
	for in != "" {
		if name, ok := sequences[in]; ok {
			return append(keys, name)
		}
		found := false
		for seq, name := range sequences {
			if len(seq) > 1 && strings.HasPrefix(in, seq) {
				keys, in, found = append(keys, name), in[len(seq):], true
				break
			}
		}
		if found {
			continue
		}
		_, n := utf8.DecodeRuneInString(in)
		one := in[:n]
		if name, ok := sequences[one]; ok {
			one = name
		}
		keys, in = append(keys, one), in[n:]
	}
	return keys
}

// cut returns as much of a line as fits, and the rest.
func cut(line string, width int) (head, rest string) {
	for i, r := range line {
		if width -= terminal.Column(r); width < 0 {
			return line[:i], line[i:]
		}
	}
	return line, ""
}

// fit cuts a line to the width; an ellipsis says that more was there.
func fit(line string, width int) string {
	if _, rest := cut(line, width); rest == "" {
		return line
	}
	head, _ := cut(line, width-1)
	return head + "…"
}

// invert shows a line as selected, over the whole width.
func invert(line string, width int) string {
	line = fit(line, width)
	for _, r := range line {
		width -= terminal.Column(r)
	}
	return "\x1b[7m" + line + strings.Repeat(" ", max(0, width)) + "\x1b[0m"
}

package upstream

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// event is one server-sent event (WHATWG HTML, section 9.2).
type event struct{ name, data, id string }

// errLong ends a stream whose event passes MaxLine.
var errLong = errors.New("the server sent an event of more than 16 MiB")

// readEvents calls use for each event of r until r or use ends.
func readEvents(r io.Reader, use func(event) error) error {
	in := bufio.NewReaderSize(r, 32<<10)
	var e event
	var data []string
	size := 0
	for {
		line, err := readLine(in, MaxLine-size)
		if err != nil {
			return err
		}
		if size += len(line); line == "" {
			e.data = strings.Join(data, "\n")
			if len(data) > 0 {
				if err := use(e); err != nil {
					return err
				}
			}
			e, data, size = event{}, nil, 0
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			data = append(data, value)
		}
	}
}

// readLine reads up to LF, CR LF or CR, whichever the server uses.
func readLine(in *bufio.Reader, limit int) (string, error) {
	var line []byte
	for {
		c, err := in.ReadByte()
		if err != nil {
			return "", err
		}
		if c == '\n' {
			return string(line), nil
		}
		if c == '\r' {
			if next, err := in.Peek(1); err == nil && next[0] == '\n' {
				in.Discard(1)
			}
			return string(line), nil
		}
		if line = append(line, c); len(line) > limit {
			return "", errLong
		}
	}
}

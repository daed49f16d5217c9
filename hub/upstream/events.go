package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"
)

// event is one server-sent event (WHATWG HTML, section 9.2).
type event struct{ name, data string }

// errLong ends a stream whose event passes MaxLine.
var errLong = errors.New("the server sent an event of more than 16 MiB")

// position is a place in a stream of events: where it can be taken up again, and when.
type position struct {
	last  string        // the id of the newest event
	retry time.Duration // what the server asked for; 0: nothing
}

// maxEventID bounds an event's id, in bytes: it is kept, and sent in a header. A
// longer one is left out.
const maxEventID = 4 << 10

// maxRetry bounds what a server may ask for.
const maxRetry = time.Minute

// readEvents calls use for each event of r until r or use ends, and keeps at.
func readEvents(r io.Reader, at *position, use func(event) error) error {
	in := &eventLines{in: bufio.NewReaderSize(r, 32<<10)}
	defer in.room.done()
	var e event
	var data []string
	size := 0
	for {
		line, err := in.next(MaxLine - size)
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
			in.room.done()
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			e.name = value
		case "id":
			if len(value) <= maxEventID && !strings.Contains(value, "\x00") { // NUL: so says the standard
				at.last = value
			}
		case "retry":
			if ms, err := strconv.ParseUint(value, 10, 31); err == nil {
				at.retry = min(time.Duration(ms)*time.Millisecond, maxRetry)
			}
		case "data":
			if err := in.room.add(len(line)%step + lineCost); err != nil {
				return err
			}
			data = append(data, value)
		}
	}
}

// eventLines reads lines that end in LF, CR LF or CR. None is held back until
// the byte after it has come: a silent server may never send one.
type eventLines struct {
	in      *bufio.Reader
	begun   bool
	afterCR bool
	room    share // of the event that is being read
}

// step is how many bytes of a line are accounted for at once.
const step = 32 << 10

// lineCost is about what a line of data takes beside its bytes.
const lineCost = 48

var byteOrderMark = []byte("\xef\xbb\xbf")

func (l *eventLines) next(limit int) (string, error) {
	if !l.begun {
		l.begun = true
		dropMark(l.in)
	}
	var line []byte
	for {
		c, err := l.in.ReadByte()
		if err != nil {
			return "", err
		}
		after := l.afterCR
		l.afterCR = c == '\r'
		switch {
		case c == '\n' && after: // the second half of CR LF
		case c == '\n' || c == '\r':
			return string(line), nil
		default:
			if line = append(line, c); len(line) > limit {
				return "", errLong
			}
			if len(line)%step == 0 {
				if err := l.room.add(step); err != nil {
					return "", err
				}
			}
		}
	}
}

// dropMark drops one byte order mark at an input's start. It looks at a second
// byte only where the first one may begin a mark.
func dropMark(in *bufio.Reader) {
	for n := 1; n <= len(byteOrderMark); n++ {
		if begin, err := in.Peek(n); err != nil || !bytes.Equal(begin, byteOrderMark[:n]) {
			return
		}
	}
	_, _ = in.Discard(len(byteOrderMark))
}

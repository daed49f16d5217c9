package plugin

import (
	"bytes"
	"strings"
)

// scanner reads an event stream (WHATWG HTML, section 9.2) as it passes. It holds
// the current event until its blank line, before which no client acts on it,
// changes it where that is due, and passes everything else on to the byte.
type scanner struct {
	place  place
	seek   bool    // the endpoint is still to come
	grants *grants // not nil: lists of tools are filtered
	limit  int     // bytes of an event that are held

	held     []byte // of the current event, or of the current line when passing
	line     int    // start of the current line in held
	seen     int    // held has no line end from line to here
	begun    bool   // the byte order mark is behind
	afterCR  bool
	passing  bool // the event is too long to be held: its lines pass
	skipLine bool // the line is too long to be held: its bytes pass
	endpoint bool // the event has that type for some client
	plain    bool // ... and for every other one, too
	fields   bool // the event has a field
}

// maxEvent is far more than an endpoint event needs.
const maxEvent = 64 << 10

// feed takes what the backend sent and returns what the client gets now. The
// second result says why the stream must be closed.
func feed(s *scanner, p []byte) ([]byte, string) {
	var passed []byte
	s.held = append(s.held, p...)
	for s.seek || s.grants != nil {
		if s.afterCR && s.line < len(s.held) {
			s.afterCR = false
			if s.held[s.line] == '\n' { // the second half of a line end
				s.line++
				s.seen = s.line
				if s.line == 1 { // of a line that has passed
					passed, _ = release(s, passed, false)
				}
			}
		}
		i := bytes.IndexAny(s.held[s.seen:], "\r\n")
		if i < 0 {
			s.seen = len(s.held)
			return overflow(s, passed)
		}
		end := s.seen + i
		ended, why := readLine(s, s.held[s.line:end])
		s.afterCR = s.held[end] == '\r'
		s.line = end + 1
		s.seen = s.line
		if why == "" && (ended || s.passing || !s.fields) {
			passed, why = release(s, passed, ended)
		}
		if why != "" {
			return passed, why
		}
	}
	passed = append(passed, s.held...)
	s.held = nil
	return passed, ""
}

// overflow passes on what has grown beyond what is held.
func overflow(s *scanner, passed []byte) ([]byte, string) {
	if len(s.held) <= s.limit && !s.skipLine {
		return passed, ""
	}
	if s.endpoint || (s.grants != nil && !s.passing) {
		return passed, "an event is too long to be changed"
	}
	if !s.skipLine && s.line < len(s.held) {
		s.skipLine = true
		s.fields = s.fields || s.held[s.line] != ':'
	}
	s.passing = true
	passed = append(passed, s.held...)
	s.held = s.held[:0]
	s.line = 0
	s.seen = 0
	return passed, ""
}

// readLine notes what a complete line says and whether it ends the event. It
// takes more for an endpoint event than the standard does, since clients do.
func readLine(s *scanner, line []byte) (bool, string) {
	if s.skipLine {
		s.skipLine = false
		s.begun = true
		return false, ""
	}
	if !s.begun {
		s.begun = true
		line = bytes.TrimPrefix(line, []byte(byteOrderMark))
	}
	if len(line) == 0 || line[0] == ':' {
		return len(line) == 0, ""
	}
	s.fields = true
	name, value := field(line)
	if strings.EqualFold(strings.TrimSpace(name), "event") {
		// What only loose clients read as the type takes back nothing that the
		// strict ones have read, and does not count as the first endpoint.
		exact := name == "event" && line[0] == 'e'
		s.endpoint = s.seek && (strings.TrimSpace(value) == "endpoint" || (s.endpoint && !exact))
		s.plain = exact && value == "endpoint"
		if s.endpoint && s.passing {
			return false, "an event turned out to be the endpoint after its data had passed"
		}
	}
	return false, ""
}

const byteOrderMark = "\xef\xbb\xbf"

// field splits a line at its colon and takes one space off the value.
func field(line []byte) (string, string) {
	name, value, _ := strings.Cut(strings.TrimPrefix(string(line), byteOrderMark), ":")
	return name, strings.TrimPrefix(value, " ")
}

// release takes the lines read so far out of held, changed where it is due.
func release(s *scanner, passed []byte, ended bool) ([]byte, string) {
	event := s.held[:s.line]
	if ended {
		if !s.passing && s.fields {
			var why string
			if event, why = change(s, event); why != "" {
				return passed, why
			}
		}
		s.endpoint = false
		s.fields = false
	}
	s.passing = s.passing && s.fields
	passed = append(passed, event...)
	s.held = append(s.held[:0], s.held[s.line:]...)
	s.line = 0
	s.seen = 0
	return passed, ""
}

// change rewrites one whole event: its data becomes one line where the first one
// was.
func change(s *scanner, event []byte) ([]byte, string) {
	var before, after []byte
	var values []string
	lineEnd := ""
	for rest := event; len(rest) > 0; {
		n := bytes.IndexAny(rest, "\r\n")
		size := n + 1
		if n < 0 {
			n = len(rest)
			size = n
		} else if rest[n] == '\r' && size < len(rest) && rest[size] == '\n' {
			size++
		}
		name, value := field(rest[:n])
		switch {
		case name == "data":
			if values == nil {
				lineEnd = string(rest[n:size])
			}
			values = append(values, value)
		case s.endpoint && strings.EqualFold(strings.TrimSpace(name), "data"):
			return nil, "its endpoint event has data for some clients only"
		case values == nil:
			before = append(before, rest[:size]...)
		default:
			after = append(after, rest[:size]...)
		}
		rest = rest[size:]
	}
	if values == nil {
		return event, ""
	}
	data := strings.Join(values, "\n")
	to, why := changed(s, data)
	if why != "" || to == data {
		return event, why
	}
	return []byte(string(before) + "data: " + to + lineEnd + string(after)), ""
}

func changed(s *scanner, data string) (string, string) {
	if s.endpoint {
		s.seek = !s.plain
		to, why := publicEndpoint(s.place, data)
		if why != "" {
			why = "its endpoint event cannot be mapped: " + why
		}
		return to, why
	}
	if s.grants == nil {
		return data, ""
	}
	list, ok := filterList([]byte(data), s.grants)
	if !ok && strings.HasPrefix(strings.TrimSpace(data), "[") {
		return "", "a batch cannot be filtered"
	}
	return string(list), ""
}

// finishScan returns what is still held when the stream ends. An event without
// its blank line is treated as whole: some clients take it.
func finishScan(s *scanner) ([]byte, string) {
	if s.line < len(s.held) {
		if _, why := readLine(s, s.held[s.line:]); why != "" {
			return nil, why
		}
		s.line = len(s.held)
	}
	return release(s, nil, true)
}

package plugin

import (
	"bytes"
	"regexp"
	"strings"
)

// scanner reads an event stream (WHATWG HTML, section 9.2) as it passes. It holds
// the current event until its blank line, before which no client acts on it,
// changes it where that is due, and passes everything else on.
//
// Clients split streams in three ways: at LF only, at LF, CR and CRLF, or at all
// that Unicode calls a line end (those that read Latin-1: latin.go). A lone CR is passed on as LF, so that the first
// two find the same lines; what only the third takes for a line end is escaped
// where it would make a difference, as JSON has it. An event that is of type
// endpoint to any of them is mapped for all of them, or closes the stream.
type scanner struct {
	mapping mapping
	grants  *grants // not nil: lists of tools are filtered
	limit   int     // bytes of an event that are held

	held    []byte // of the current event, whole lines and the begin of one
	afterCR bool   // a CR has passed as LF; an LF now is its second half
	long    bool   // the event is too long to be held: its lines pass
	inLine  bool   // ... and so does the rest of this line
	comment bool   // ... which is a comment before the event
	begun   string // ... in which a type may have begun for those who read Latin-1
}

// maxEvent is far more than an endpoint event needs.
const maxEvent = 64 << 10

// looseSpace is what some client or other trims off a value: line ends, spaces,
// control characters and the byte order mark.
const looseSpace = "\n\r\t\v\f \x00\x01\x02\x03\x04\x05\x06\x07\x08\x0e\x0f" +
	"\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x7f" +
	"\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009" +
	"\u200a\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202f\u205f\u2060\u3000\ufeff"

const (
	space = `[\x00-\x09\x0b-\x20\x7f\x{85}\x{a0}\x{1680}\x{2000}-\x{200f}` +
		`\x{2028}\x{2029}\x{202f}\x{205f}\x{2060}\x{3000}\x{feff}]*`
	separator = `[\n\r\v\f\x1c-\x1e\x{85}\x{2028}\x{2029}]`
)

var (
	// saysEndpoint finds a line that is the type endpoint for some client.
	saysEndpoint = regexp.MustCompile(`(?:^|` + separator + `)` + space + `(?i:event)` + space + `:` + space +
		`endpoint` + space + `(?:$|` + separator + `)`)

	// escapeLineEnds leaves LF, CR and CRLF as the only ones.
	escapeLineEnds = strings.NewReplacer("\v", `\u000b`, "\f", `\u000c`, "\x1c", `\u001c`, "\x1d", `\u001d`, "\x1e",
		`\u001e`,
		"\u0085", `\u0085`, "\u2028", `\u2028`, "\u2029", `\u2029`)

	inUTF8 = regexp.MustCompile(`charset\s*=\s*"?utf-?8"?\s*(?:[;,]|$)`)

	endpointWord = []byte("endpoint")
	blankLine    = []byte("\n\n")
	blankLineCR  = []byte("\n\r\n")
)

// feed takes what the backend sent and returns what the client gets now. The
// second result says why the stream must be closed.
func feed(s *scanner, p []byte) ([]byte, string) {
	if s.afterCR || bytes.IndexByte(p, '\r') >= 0 {
		p = lineEnds(s, p)
	}
	if len(s.held) == 0 && !s.long && s.grants == nil && bytes.HasSuffix(p, blankLine) &&
		!bytes.Contains(p, endpointWord) {
		return p, ""
	}
	seen := len(s.held)
	s.held = append(s.held, p...)
	var passed []byte
	if s.long {
		var why string
		passed, why = feedLong(s)
		if why != "" || s.long {
			return passed, why
		}
		seen = 0
	}
	end := lastBlank(s.held, seen)
	events, why := changeEvents(s, s.held[:end])
	passed = append(passed, events...)
	if end > 0 {
		s.held = append(s.held[:0], s.held[end:]...)
	}
	if why != "" {
		return passed, why
	}
	return feedRest(s, passed)
}

// lineEnds makes an LF of each CR that none follows. A CR at the end of p is
// passed on as an LF at once: an event must not wait for the next one.
func lineEnds(s *scanner, p []byte) []byte {
	if s.afterCR && len(p) > 0 {
		s.afterCR = false
		if p[0] == '\n' {
			p = p[1:]
		}
	}
	s.afterCR = s.afterCR || bytes.HasSuffix(p, []byte("\r"))
	if !s.afterCR && bytes.Count(p, []byte("\r")) == bytes.Count(p, []byte("\r\n")) {
		return p
	}
	return bytes.ReplaceAll(bytes.ReplaceAll(p, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
}

// lastBlank returns where the last blank line of held ends, or 0. Up to seen
// there is none but at its begin.
func lastBlank(held []byte, seen int) int {
	from := seen - 2
	if from < 0 {
		from = 0
	}
	end := 0
	if i := bytes.LastIndex(held[from:], blankLine); i >= 0 {
		end = from + i + 2
	}
	if i := bytes.LastIndex(held[from:], blankLineCR); i >= 0 && from+i+3 > end {
		end = from + i + 3
	}
	if end == 0 {
		return startBlank(held)
	}
	return end
}

// startBlank returns the length of the blank line that text starts with, or 0.
func startBlank(text []byte) int {
	if bytes.HasPrefix(text, []byte("\n")) {
		return 1
	}
	if bytes.HasPrefix(text, []byte("\r\n")) {
		return 2
	}
	return 0
}

// firstBlank returns where the first event of text ends.
func firstBlank(text []byte) int {
	end := len(text)
	if n := startBlank(text); n > 0 {
		return n
	}
	if i := bytes.Index(text, blankLine); i >= 0 {
		end = i + 2
	}
	if i := bytes.Index(text[:end], blankLineCR); i >= 0 {
		end = i + 3
	}
	return end
}

// changeEvents changes what has to be changed of whole events.
func changeEvents(s *scanner, events []byte) ([]byte, string) {
	if s.grants == nil && !bytes.Contains(events, endpointWord) {
		return events, ""
	}
	var passed []byte
	for len(events) > 0 {
		n := firstBlank(events)
		event, why := changeEvent(s, events[:n])
		if why != "" {
			return passed, why
		}
		passed = append(passed, event...)
		events = events[n:]
	}
	return passed, ""
}

// feedRest looks at an event that is not whole. Comments pass at once.
func feedRest(s *scanner, passed []byte) ([]byte, string) {
	for len(s.held) > 0 && s.held[0] == ':' {
		n := bytes.IndexByte(s.held, '\n') + 1
		if n == 0 || bytes.Contains(s.held[:n], endpointWord) {
			break
		}
		passed = append(passed, escaped(s.held[:n])...)
		s.held = s.held[n:]
	}
	if len(s.held) <= s.limit {
		return passed, ""
	}
	s.held = escaped(s.held)
	if s.grants != nil || saysEndpoint.Match(s.held) || latinEndpoint(s.held) {
		return passed, "an event is too long to be changed"
	}
	s.long = true
	lines := bytes.LastIndexByte(s.held, '\n') + 1 // none of them is the type endpoint
	s.comment = lines == 0 && s.held[0] == ':'
	passed = append(passed, s.held[:lines]...)
	s.held = s.held[lines:]
	more, why := feedLong(s)
	return append(passed, more...), why
}

// feedLong passes on the lines of an event that is too long to be held. After its
// data has passed it must not become an endpoint.
func feedLong(s *scanner) ([]byte, string) {
	var passed []byte
	for len(s.held) > 0 {
		n := bytes.IndexByte(s.held, '\n') + 1
		blank := startBlank(s.held)
		s.inLine = s.inLine || harmlessLine.Match(s.held)
		switch {
		case s.inLine && n == 0:
			n = wholeRunes(s.held)
			if latinGoesOn(s, s.held[:n]) {
				return passed, latinOnly
			}
			passed = append(passed, escaped(s.held[:n])...)
			s.held = s.held[n:]
			return passed, ""
		case n == 0 && len(s.held) <= maxLine:
			return passed, ""
		case n == 0 || (!s.inLine && saysEndpoint.Match(escaped(s.held[:n]))):
			return passed, "an event goes on after data that was too long to be held"
		case latinGoesOn(s, s.held[:n]) || (!s.inLine && latinEndpoint(s.held[:n])):
			return passed, latinOnly
		}
		passed = append(passed, escaped(s.held[:n])...)
		s.held = s.held[n:]
		s.inLine = false
		if blank > 0 || s.comment {
			s.long = false
			s.comment = false
			return passed, ""
		}
	}
	return passed, ""
}

// maxLine bounds a line of a long event that is looked at as a whole.
const maxLine = 1 << 10

// harmlessLine begins with what no client takes for a type.
var harmlessLine = regexp.MustCompile(`^(?::|data[:\r\n]|id[:\r\n]|retry[:\r\n])`)

// wholeRunes is the length of text without the begin of a line end at its end.
func wholeRunes(text []byte) int {
	for _, begin := range []string{"\xe2\x80", "\xe2", "\xc2"} {
		if bytes.HasSuffix(text, []byte(begin)) {
			return len(text) - len(begin)
		}
	}
	return len(text)
}

// escaped leaves LF, CR and CRLF as the only line ends.
func escaped(text []byte) []byte {
	if !bytes.ContainsAny(text, "\v\f\x1c\x1d\x1e") && !bytes.Contains(text, []byte("\u2028")) &&
		!bytes.Contains(text, []byte("\u2029")) && !bytes.Contains(text, []byte("\u0085")) {
		return text
	}
	return []byte(escapeLineEnds.Replace(string(text)))
}

// finishScan returns what is still held when the stream ends. An event without
// its blank line is treated as whole: some clients take it.
func finishScan(s *scanner) ([]byte, string) {
	if s.long {
		if !s.inLine {
			return nil, "" // the begin of a line
		}
		return s.held, ""
	}
	return changeEvents(s, s.held)
}

// scanWhole is for a stream that has been held.
func scanWhole(s *scanner, body []byte) ([]byte, string) {
	passed, why := feed(s, body)
	if why != "" {
		return nil, why
	}
	rest, why := finishScan(s)
	return append(passed, rest...), why
}

package plugin

import (
	"bytes"
	"regexp"
	"strings"
)

// Some clients read an event stream as Latin-1, the default of text/* in older
// HTTP, and split it at the byte 0x85. UTF-8 has that byte inside of characters
// such as Å. An event whose type is endpoint to those alone is not from an honest
// server, so it closes the stream.

const latinOnly = "its event has an endpoint for clients that read Latin-1"

var (
	toLatin = strings.NewReplacer(latinPairs()...)

	// latinType finds the type inside of a line, latinBegin where one may begin.
	latinType = regexp.MustCompile(`\x{85}` + space + `(?i:event)` + space + `:` + space + `endpoint` + space +
		separator)
	latinBegin = regexp.MustCompile(`\x{85}(?:` + space + `[evntdpoiEVNT:]*)*$`)
)

// latinPairs writes each byte that is not ASCII as Latin-1 has it.
func latinPairs() []string {
	var pairs []string
	for i := 128; i < 256; i++ {
		pairs = append(pairs, string([]byte{byte(i)}), string(rune(i)))
	}
	return pairs
}

// latinEndpoint says whether whole lines have the type endpoint in Latin-1 too.
// Without 0x85, a line end, and 0xa0, a space, it is as in UTF-8.
func latinEndpoint(lines []byte) bool {
	return bytes.Contains(lines, endpointWord) &&
		(bytes.IndexByte(lines, 0x85) >= 0 || bytes.IndexByte(lines, 0xa0) >= 0) &&
		saysEndpoint.MatchString(toLatin.Replace(string(lines)))
}

// latinGoesOn looks at the next piece of a line that is too long to be held.
func latinGoesOn(s *scanner, piece []byte) bool {
	if s.begun == "" && bytes.IndexByte(piece, 0x85) < 0 {
		return false
	}
	text := s.begun + toLatin.Replace(string(piece))
	s.begun = latinBegin.FindString(text)
	return latinType.MatchString(text) || len(s.begun) > maxLine
}

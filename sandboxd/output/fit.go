package output

import (
	"strings"
	"unicode/utf8"
)

// fit turns the beginning of data into valid UTF-8 of at most size bytes that
// takes at most encoded bytes in a JSON string, and says how many bytes of data
// that is. Each invalid byte becomes U+FFFD.
func fit(data []byte, size, encoded int) (text string, used int) {
	var b strings.Builder
	for used < len(data) {
		r, n := utf8.DecodeRune(data[used:])
		size -= utf8.RuneLen(r)
		encoded -= jsonLen(r)
		if size < 0 || encoded < 0 {
			break
		}
		b.WriteRune(r)
		used += n
	}
	return b.String(), used
}

// fitEnd is fit for the end of data. dropped is what it left out in front.
func fitEnd(data []byte, size, encoded int) (text string, dropped int) {
	start := 0
	for start < min(len(data), utf8.UTFMax-1) && !utf8.RuneStart(data[start]) {
		start++ // the rest of a rune that was cut
	}
	at := len(data)
	for at > start {
		r, n := utf8.DecodeLastRune(data[start:at])
		size -= utf8.RuneLen(r)
		encoded -= jsonLen(r)
		if size < 0 || encoded < 0 {
			break
		}
		at -= n
	}
	return expand(data[at:]), at
}

// expand replaces each invalid byte with U+FFFD.
func expand(data []byte) string {
	text, _ := fit(data, 3*len(data), 6*len(data))
	return text
}

// jsonLen is how many bytes JSON needs for r inside a string. That encoding/json
// escapes <, > and & by habit does not count: code is full of them.
func jsonLen(r rune) int {
	switch {
	case r == '"' || r == '\\' || r == '\n' || r == '\r' || r == '\t' || r == '\b' || r == '\f':
		return 2
	case r < 0x20 || r == '\u2028' || r == '\u2029':
		return 6
	}
	return utf8.RuneLen(r)
}

// Ends are the beginning and the end of a valid text, at most each bytes of
// either, cut between characters and at a line's end where one is near.
func Ends(text string, each int) (head, tail string) {
	if len(text) <= 2*each {
		return text, ""
	}
	head, tail = Head(text, each), text[len(text)-each:]
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	if i := strings.IndexByte(tail, '\n'); i >= 0 && i < 1<<10 {
		tail = tail[i+1:]
	}
	return head, tail
}

// Head is the beginning of a valid text, at most most bytes of it, cut as Ends
// cuts it.
func Head(text string, most int) string {
	if len(text) <= most {
		return text
	}
	head := text[:most]
	for len(head) > 0 && !utf8.RuneStart(text[len(head)]) {
		head = head[:len(head)-1]
	}
	if i := strings.LastIndexByte(head, '\n'); i >= 0 && len(head)-i < 1<<10 {
		head = head[:i+1]
	}
	return head
}

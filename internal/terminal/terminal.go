// Package terminal makes foreign text safe to print: it cannot move the cursor, hide
// a part of itself or imitate a line of ours.
package terminal

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Width of a wrapped line, in characters; with the indent it fits 80 columns.
const Width = 76

// Visible reports whether r shows itself and nothing else. Controls, format
// characters (U+202E, zero width), variation selectors, fillers and what is not
// assigned do not.
func Visible(r rune) bool {
	return unicode.IsPrint(r) && r != utf8.RuneError &&
		!unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// Escape writes each character that is not Visible as \u{hex}, line breaks too.
func Escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		escape(&b, r)
	}
	return b.String()
}

func escape(b *strings.Builder, r rune) (columns int) {
	if Visible(r) {
		b.WriteRune(r)
		return 1
	}
	n, _ := fmt.Fprintf(b, `\u{%x}`, r) // a Builder takes everything
	return n
}

// Line is Escape of one line, at most limit bytes of it, cut between characters; an
// ellipsis says that more was there.
func Line(text string, limit int) string {
	text = Escape(text)
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}

// Wrap is Escape that keeps line breaks and breaks lines after Width characters.
// Continued lines begin with four blanks, so that none looks like the beginning of
// one of ours.
func Wrap(text string) string {
	var b strings.Builder
	column := 0
	for _, r := range text {
		if r == '\n' {
			b.WriteByte('\n')
			column = 0
			continue
		}
		if column++; column > Width {
			b.WriteString("\n    ")
			column = 5
		}
		column += escape(&b, r) - 1
	}
	return b.String()
}

// JSON writes each character of JSON text that is not Visible as \uXXXX. It is the same
// JSON: such characters stand in strings only, but for the line breaks between.
func JSON(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case Visible(r) || r == '\n':
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

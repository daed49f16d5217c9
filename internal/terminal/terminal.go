// Package terminal makes foreign text safe to print: it cannot move the cursor, hide
// a part of itself or imitate a line of ours.
package terminal

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Width of a wrapped line, in columns; behind a margin of eight it fits the 80 of a
// usual terminal, which would break a longer one itself, without any margin.
const Width = 72

// Visible reports whether r shows itself, where it stands, and nothing else. Controls, format
// characters (U+202E, zero width), variation selectors, fillers and what is not
// assigned do not. Nor do letters and digits that are written from right to left: many
// terminals then show what stands between two of them in another order.
func Visible(r rune) bool {
	return unicode.IsPrint(r) && r != utf8.RuneError && !within(r, rightToLeft) &&
		!unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// rightToLeft are the blocks whose characters are R, AL or AN (Unicode, DerivedBidiClass.txt).
var rightToLeft = [][2]rune{{0x590, 0x8ff}, {0xfb1d, 0xfdff}, {0xfe70, 0xfeff}, {0x10800, 0x10fff}, {0x1e800, 0x1efff}}

func within(r rune, blocks [][2]rune) bool {
	return slices.ContainsFunc(blocks, func(b [2]rune) bool { return r >= b[0] && r <= b[1] })
}

// Escape writes each character that is not Visible as \u{hex}, line breaks too.
func Escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		if Visible(r) {
			b.WriteRune(r)
			continue
		}
		fmt.Fprintf(&b, `\u{%x}`, r) // a Builder takes everything
	}
	return b.String()
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

// Columns is how many columns a visible text takes at most: two for each of the wide
// characters of East Asia and pictures. Marks count as one, so that a line is broken
// early rather than late.
func Columns(text string) (n int) {
	for _, r := range text {
		n += Column(r)
	}
	return n
}

// Column is Columns of one character.
func Column(r rune) int {
	if r < 0x1100 {
		return 1
	}
	if within(r, pictures) ||
		unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana, unicode.Yi, unicode.Tangut) {
		return 2
	}
	return 1
}

// pictures are further blocks with wide characters, whole (Unicode, EastAsianWidth.txt).
var pictures = [][2]rune{{0x2300, 0x23ff}, {0x25a0, 0x27bf}, {0x2b00, 0x2bff}, {0x2e80, 0xa4cf}, {0xfe10, 0xfe6f},
	{0xff01, 0xff60}, {0xffe0, 0xffe6}, {0x16fe0, 0x18dff}, {0x1aff0, 0x1b2ff}, {0x1d300, 0x1d37f}, {0x1f000, 0x1faff},
	{0x20000, unicode.MaxRune}}

// Wrap is Escape that keeps line breaks and breaks lines after Width columns.
// Continued lines begin with four blanks, so that none looks like the beginning of
// one of ours.
func Wrap(text string) string { return WrapAt(text, Width) }

// WrapAt is Wrap for lines of another width, in columns; at least 16.
func WrapAt(text string, width int) string {
	const indent = "    "
	var b strings.Builder
	column := 0
	for _, r := range text {
		if r == '\n' {
			b.WriteByte('\n')
			column = 0
			continue
		}
		one, columns := string(r), Column(r)
		if !Visible(r) {
			one = Escape(one)
			columns = len(one)
		}
		if column += columns; column > width {
			b.WriteString("\n" + indent)
			column = len(indent) + columns
		}
		b.WriteString(one)
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

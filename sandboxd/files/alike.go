package files

import (
	"fmt"
	"strings"
	"unicode"
)

// looks are characters that a model, or the page that it copied from, puts in
// the place of plain ones.
var looks = strings.NewReplacer(
	"\u00a0", " ", "\u2007", " ", "\u202f", " ", "\u2002", " ", "\u2003", " ", "\u2009", " ", "\u3000", " ",
	"\u2018", "'", "\u2019", "'", "\u201a", "'", "\u201b", "'", "\u201c", `"`, "\u201d", `"`, "\u201e", `"`, "\u201f",
	`"`,
	"\u2010", "-", "\u2011", "-", "\u2012", "-", "\u2013", "-", "\u2014", "-", "\u2212", "-", "\u2026", "...",
)

// letters that have a composed form are compared without their marks.
const (
	composed = "ÀÁÂÃÄÅÇÈÉÊËÌÍÎÏÑÒÓÔÕÖÙÚÛÜÝàáâãäåçèéêëìíîïñòóôõöùúûüýÿĀāĂăĄąĆćĈĉĊċČčĎďĒēĔĕĖėĘęĚěĜĝĞ" +
		"ğĠġĢģĤĥĨĩĪīĬĭĮįİĴĵĶķĹĺĻļĽľŃńŅņŇňŌōŎŏŐőŔŕŖŗŘřŚśŜŝŞşŠšŢţŤťŨũŪūŬŭŮůŰűŲųŴŵŶŷŸŹźŻżŽž"
	bare = "AAAAAACEEEEIIIINOOOOOUUUUYaaaaaaceeeeiiiinooooouuuuyyAaAaAaCcCcCcCcDdEeEeEeEeEeGgG" +
		"gGgGgHhIiIiIiIiIJjKkLlLlLlNnNnNnOoOoOoRrRrRrSsSsSsSsTtTtUuUuUuUuUuUuWwYyYZzZzZz"
)

var unmarked = func() map[rune]rune {
	m, plain := map[rune]rune{}, []rune(bare)
	for i, c := range []rune(composed) {
		m[c] = plain[i]
	}
	return m
}()

// alike makes texts equal that look alike.
func alike(text string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case unicode.Is(unicode.Mn, c), unicode.Is(unicode.Cf, c):
			return -1
		case unmarked[c] != 0:
			return unmarked[c]
		}
		return c
	}, looks.Replace(text))
}

// odd names the characters of old, or else of the file, that are not plain.
func odd(text, old string) string {
	for _, from := range []struct{ name, text string }{{"old_text", old}, {"the file", text}} {
		seen := map[rune]bool{}
		var names []string
		for _, c := range from.text {
			if c > 0x7f && alike(string(c)) != string(c) && !seen[c] && len(names) < 5 {
				seen[c] = true
				names = append(names, fmt.Sprintf("U+%04X", c))
			}
		}
		if len(names) > 0 {
			return from.name + " has " + strings.Join(names, ", ")
		}
	}
	return "letters with marks"
}

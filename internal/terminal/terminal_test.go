package terminal_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/sallyport-dev/sallyport/internal/terminal"
)

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"plain text, ümläut, 日本": "plain text, ümläut, 日本",
		"\x1b[2J":                `\u{1b}[2J`,
		"\u009b1A":               `\u{9b}1A`, // the C1 form of ESC [
		"a\r\nb\tc\x00\x7f":      `a\u{d}\u{a}b\u{9}c\u{0}\u{7f}`,
		"\u202eevil\u200b":       `\u{202e}evil\u{200b}`,
		"\ufe0f\u3164\u2028":     `\u{fe0f}\u{3164}\u{2028}`,
		"\U000e0041":             `\u{e0041}`,
		"\xff":                   `\u{fffd}`,
		// A terminal that orders by direction shows the path of the first as a/ב/.. and
		// the digits of the third before its letter.
		"rm -r א/../ב": `rm -r \u{5d0}/../\u{5d1}`,
		"كتاب":         `\u{643}\u{62a}\u{627}\u{628}`,
		"\u07c0 \U0001e900 \ufdfa \u0665 \U00010a00": `\u{7c0} \u{1e900} \u{fdfa} \u{665} \u{10a00}`,
	} {
		if got := terminal.Escape(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestLineIsCutBetweenCharacters(t *testing.T) {
	for limit := range 12 {
		got := terminal.Line("日本日本日本", limit)
		if !utf8.ValidString(got) || len(got) > limit+len("…") || !strings.HasSuffix(got, "…") {
			t.Errorf("%d: %q", limit, got)
		}
	}
	if got := terminal.Line("short", 5); got != "short" {
		t.Errorf("%q", got)
	}
}

func TestWrap(t *testing.T) {
	text := strings.Repeat("x", 500) + "\n" + strings.Repeat("\x1b", 100) + strings.Repeat("日", 100) + strings.Repeat("xé日🙂\U000e0041ｘ", 100)
	for line := range strings.SplitSeq(terminal.Wrap(text), "\n") {
		if n := terminal.Columns(line); n > terminal.Width {
			t.Errorf("a line of %d columns: %q", n, line)
		}
	}
	if n := terminal.Columns("日本x🙂"); n != 7 {
		t.Errorf("two wide characters, a narrow one and a picture take %d columns", n)
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("\x1b]0;title\x07\u202e\xff")
	f.Fuzz(func(t *testing.T, text string) {
		for _, got := range []string{terminal.Escape(text), terminal.Line(text, 40), strings.ReplaceAll(terminal.Wrap(text), "\n", "")} {
			for _, r := range got {
				if !terminal.Visible(r) {
					t.Fatalf("%q became %q", text, got)
				}
			}
		}
	})
}

// JSON for a terminal is the same JSON and holds nothing that drives it.
func TestJSON(t *testing.T) {
	for _, text := range []string{"plain", "日本 é", "\u009b2J\u202e\u200b\U000e0041\u061c\x1b[2J\r\t\x7f", "\u2028\ufeff\u3164"} {
		raw, err := json.MarshalIndent(map[string]string{"a": text}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		shown := terminal.JSON(string(raw))
		var back map[string]string
		if err := json.Unmarshal([]byte(shown), &back); err != nil || back["a"] != text {
			t.Errorf("%q: %v %q", text, err, shown)
		}
		for _, r := range shown {
			if r != '\n' && !terminal.Visible(r) {
				t.Errorf("%U in %q", r, shown)
			}
		}
	}
}

// No letter or digit is written from right to left: whatever its script, all of it is in the
// table, and the scripts of the neighbours still show themselves.
func TestRightToLeft(t *testing.T) {
	for name, script := range map[string]*unicode.RangeTable{"Hebrew": unicode.Hebrew, "Arabic": unicode.Arabic,
		"Syriac": unicode.Syriac, "Thaana": unicode.Thaana, "Nko": unicode.Nko, "Samaritan": unicode.Samaritan,
		"Mandaic": unicode.Mandaic, "Adlam": unicode.Adlam, "Mende_Kikakui": unicode.Mende_Kikakui,
		"Phoenician": unicode.Phoenician, "Avestan": unicode.Avestan, "Old_Hungarian": unicode.Old_Hungarian,
		"Yezidi": unicode.Yezidi, "Hanifi_Rohingya": unicode.Hanifi_Rohingya, "Sogdian": unicode.Sogdian} {
		for r := rune(0); r <= unicode.MaxRune; r++ {
			if unicode.Is(script, r) && terminal.Visible(r) {
				t.Fatalf("%s: %U shows itself", name, r)
			}
		}
	}
	for _, r := range "Ωжհकไ日é→" {
		if !terminal.Visible(r) {
			t.Errorf("%U does not show itself", r)
		}
	}
}

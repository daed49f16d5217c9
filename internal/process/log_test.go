package process_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/sallyport-dev/sallyport/internal/process"
)

// A log that is read on a terminal later drives none, whatever text of others it holds;
// it is the same JSON, one line for a record, and what prints stays readable.
func TestLogDrivesNoTerminal(t *testing.T) {
	for _, text := range []string{"plain", "日本 é <&>", "\x1b[2J\u009b2J\u202e\u200b\U000e0041\x7f\u2028\r\n\t\x00", "\xff\x9b2J"} {
		var out bytes.Buffer
		process.NewLogger(&out).Info(text, "key", text)
		var back struct{ Msg, Key string }
		if err := json.Unmarshal(out.Bytes(), &back); err != nil || back.Key != strings.ToValidUTF8(text, "\ufffd") && back.Key != "\ufffd\ufffd2J" || back.Key != back.Msg {
			t.Errorf("%q: %v %q", text, err, back.Key)
		}
		line := strings.TrimSuffix(out.String(), "\n")
		for _, r := range line {
			if !unicode.IsPrint(r) {
				t.Errorf("%U in %q", r, line)
			}
		}
		if text == "日本 é <&>" && !strings.Contains(line, "日本 é") {
			t.Errorf("twin: %q", line)
		}
	}
}

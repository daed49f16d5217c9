package tool_test

import (
	"strings"
	"testing"
)

// A blank text block would make a model's API refuse the whole conversation.
func TestBlankFilesHaveAText(t *testing.T) {
	b := newBox(t)
	for content, want := range map[string]string{
		"":                        "[the file is empty]",
		"\n":                      "\n[only white space]",
		" \t\r\n\u00a0":           " \t\r\n\u00a0[only white space]",
		strings.Repeat("\n", 5e4): strings.Repeat("\n", 5e4) + "[only white space]",
		strings.Repeat("\n", 64<<10): strings.Repeat("\n", 63<<10) +
			"[… lines 1 to 64512 of 65536; for the rest: offset 64513 …]",
		"x\n": "x\n",
	} {
		b.put("file", content)
		var got readResult
		res := b.raw("read_file", args{"path": "file"})
		decode(t, res, &got)
		if words := text(res); words != want || got.Content != content {
			t.Errorf("%.9q, %d bytes: %.90q", content, len(content), words)
		}
	}
}

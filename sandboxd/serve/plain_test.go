package serve

import (
	"encoding/json"
	"testing"
)

func TestPlain(t *testing.T) {
	for _, text := range []string{"", "a <- b && c > d // <div>", `\u003c`, `\\u003c`, "\\<", "\\\\<\\", "\"<\"\n\t", "\u2028<é\x01", `<\u003e&`} {
		raw, err := json.Marshal(map[string]string{text: text})
		if err != nil {
			t.Fatal(err)
		}
		got := plain(raw)
		var back map[string]string
		if err := json.Unmarshal(got, &back); err != nil || back[text] != text || len(back) != 1 {
			t.Errorf("%q: %s became %s: %v", text, raw, got, err)
		}
	}
	if got := string(plain([]byte(`"\u003c\u003E\u0026\u003e"`))); got != `"<\u003E&>"` {
		t.Errorf("%s", got)
	}
}

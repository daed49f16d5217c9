package mux

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
)

// Of a long text nearly all that may pass does, however it is written, and what
// is left is a whole string.
func TestCutKeepsWhatFits(t *testing.T) {
	for name, unit := range map[string]string{"plain": "abcdefgh", "escapes": `\n\"\\`, "unicode": "äö漢😀", "pairs": `\ud83d\ude00`, "control": `\u0001`} {
		raw := `{"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":[{"type":"text","text":"first"},{"type":"text","text":"` +
			strings.Repeat(unit, 9<<20/len(unit)) + `"}]}}`
		m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`))
		if err != nil {
			t.Fatal(err)
		}
		got := bounded(&Call{Message: m}, []byte(raw))
		var answer struct {
			Result struct {
				IsError bool
				Content []struct{ Text string }
			}
		}
		if err := json.Unmarshal(got, &answer); err != nil || !answer.Result.IsError || len(answer.Result.Content) != 3 {
			t.Fatalf("%s: %v, %d blocks", name, err, len(answer.Result.Content))
		}
		if len(got) > MaxResult || len(got) < MaxResult-8<<10 {
			t.Errorf("%s: %d bytes of %d", name, len(got), MaxResult)
		}
		text := answer.Result.Content[1].Text
		if answer.Result.Content[0].Text != "first" || strings.ContainsRune(text, '\ufffd') || !strings.Contains(answer.Result.Content[2].Text, "cut by the hub") {
			t.Errorf("%s: the text ends with %q", name, text[max(0, len(text)-20):])
		}
	}
}

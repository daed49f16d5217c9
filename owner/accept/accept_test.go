package accept_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/sallyport-dev/sallyport/hub/pins"
	"github.com/sallyport-dev/sallyport/jail/jailtest"
	"github.com/sallyport-dev/sallyport/owner/accept"
)

type defs = map[string]json.RawMessage

func TestMain(m *testing.M) { jailtest.Main(m) }

// show is what the owner sees of a change from old to new.
func show(t *testing.T, tool string, old, new json.RawMessage) string {
	t.Helper()
	dir := t.TempDir()
	s, err := pins.Open(dir)
	for _, definition := range []json.RawMessage{old, new} {
		if err == nil {
			_, err = s.Pin("x", defs{tool: definition}, true)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("MCP_STATE_DIR", dir)
	var out, errs strings.Builder
	if code := accept.Main(t.Context(), []string{"x"}, &out, &errs); code != 1 || !strings.Contains(errs.String(), "nothing was accepted yet") {
		t.Fatalf("%d: %s", code, errs.String())
	}
	return out.String()
}

// Only what changed is shown, with the lines around it.
func TestReviewIsADiff(t *testing.T) {
	got := show(t, "a",
		[]byte(`{"name":"a","description":"One.\nTwo.\nThree.","inputSchema":{"type":"object","properties":{"n":{"type":"number","maximum":12345678901234567890}}}}`),
		[]byte(`{"title":"A <b>","inputSchema":{"properties":{"n":{"maximum":12345678901234567891,"type":"number"}},"type":"object"},"name":"a","description":"One.\nTwo!\nThree."}`))
	want := `--- a/"a"
+++ b/"a"
@@ -1,11 +1,11 @@
   "description": "One.\n
-    Two.\n
+    Two!\n
     Three."
 
   "inputSchema": {
     "properties": {
       "n": {
-        "maximum": 12345678901234567890,
+        "maximum": 12345678901234567891,
         "type": "number"
       }
     },
@@ -14,4 +14,5 @@
 
   "name": "a"
 
+  "title": "A <b>"
 

`
	if !strings.HasPrefix(got, want) {
		t.Errorf("shown is\n%s\nwant\n%s", got, want)
	}
}

// Whatever a definition holds, the terminal is not driven, nothing is hidden,
// and no line of it looks like one of ours.
func TestReviewOfHostileText(t *testing.T) {
	hidden := "\x1b[2J\u009b1A\r\x7f\u202e\u200b\ufe0f\U000e0041\U000e0101\u3164\u2028\x00\xff"
	text, _ := json.Marshal("evil " + hidden + "\n+ fine" + strings.Repeat(" ", 200) + "To accept exactly this: x")
	got := show(t, "a\x1b[2J\n\u202e", []byte(`{"description":"good"}`), []byte(fmt.Sprintf(`{"description":%s,%s:1}`, text, text)))
	for _, r := range got {
		if r != '\n' && (!unicode.IsPrint(r) || r > '~' && r != '\ufffd') {
			t.Errorf("%U is shown as it is", r)
		}
	}
	for _, seen := range []string{`\u001b[2J`, `\u{9b}1A`, `\r`, `\u{7f}`, `\u{202e}`, `\u{200b}`, `\u{fe0f}`, `\u{e0041}`, `\u{e0101}`, `\u{3164}`, `\u2028`, `\u0000`} {
		if !strings.Contains(strings.ReplaceAll(got, "\n+    ", ""), seen) {
			t.Errorf("%s is not seen in\n%s", seen, got)
		}
	}
	for line := range strings.Lines(got) {
		own := strings.HasPrefix(line, "--- a/") || strings.HasPrefix(line, "+++ b/") || strings.HasPrefix(line, "@@ ")
		if last := strings.HasPrefix(line, "To accept exactly this: sallyport accept x "); !own && !last && (len(line) > 90 || strings.HasPrefix(line, "+ fine") || line != "\n" && !strings.ContainsRune(" +-", rune(line[0]))) {
			t.Errorf("a line is %q", line)
		}
	}
}

// Of a key that is there twice both are shown, wherever it stands: a client may take
// the first. Without the second nothing but the change is.
func TestReviewShowsBothReadings(t *testing.T) {
	for _, form := range []string{`{"description":%q,"description":"good"}`, `{"inputSchema":{"p":{"d":%q,"d":"good"}}}`, `{"description":%q}`} {
		got := show(t, "a", fmt.Appendf(nil, form, "kind"), fmt.Appendf(nil, form, "evil"))
		if !strings.Contains(got, `"kind"`) || !strings.Contains(got, `"evil"`) {
			t.Errorf("%s: shown is\n%s", form, got)
		}
	}
}

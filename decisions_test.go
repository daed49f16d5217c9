package sallyport

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// A record says when it was made and whether it still holds, and the index lists
// each one: go test . -update writes the index.
func TestDecisionsAreIndexed(t *testing.T) {
	head := regexp.MustCompile(`^# (.+)\n\nDate: (\d{4}-\d\d-\d\d) · Status: (accepted|superseded by \d{4}|withdrawn)\n`)
	var rows strings.Builder
	for _, name := range tracked(t, ".md") {
		if path.Dir(name) != "docs/decisions" || path.Base(name) == "README.md" {
			continue
		}
		m := head.FindStringSubmatch(read(t, name))
		if m == nil {
			t.Errorf("%s: it must begin with a title, an empty line and \"Date: YYYY-MM-DD · Status: accepted\"", name)
			continue
		}
		number, _, _ := strings.Cut(path.Base(name), "-")
		fmt.Fprintf(&rows, "| %s | [%s](%s) | %s | %s |\n", number, m[1], path.Base(name), m[2], m[3])
	}
	const index = "docs/decisions/README.md"
	want := "# Decisions\n\nWhy things are as they are. Each record is short, dated, and says whether it still holds.\n\n" +
		"| | decision | date | status |\n|---|---|---|---|\n" + rows.String()
	if *update {
		if err := os.WriteFile(index, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got, _ := os.ReadFile(index); string(got) != want {
		t.Errorf("%s is not what the records say: go test . -update", index)
	}
}

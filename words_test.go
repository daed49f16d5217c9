package sallyport

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strings"
	"testing"
)

// Readers search for the field's terms, so comments, messages and pages use
// them. Each row is a word that was in use once, and what to write instead.
var replaced = []struct{ words, write string }{
	{`walls?`, "control, restriction or rule"},
	{`(?:first|second|both) gates?`, "edge, sandbox"},
	{`wholly taken|taken part|a taken (?:hub|host|edge|sandbox|server)`, "compromised"},
	{`said aloud`, "logged, or returned as a tool error"},
	{`newcomers?`, "client, new session, new user"},
	{`(?:for )?want of (?:memory|room|space)`, "out of memory, because there is no room"},
	{`heed(?:s|ed)?`, "honoured"},
	{`mend(?:s|ed)?`, "fix"},
	{`in words`, "with an error message, as a tool error"},
	{`for ever`, "indefinitely"},
	{`beneath`, "under, inside"},
	{`(?:give|gives|gave|giving) way`, "is evicted, is terminated"},
	{`walk(?:s|ing)? into`, "tries, probes"},
	{`comes? alone`, "own process, own session"},
	{`the owner's commands?`, "`sallyport`"},
	{`(?:one|each|other|another|all|too many) callers?|callers'`, "principal"},
	{`verdict[=:"]+(?:locked|rate|not)[^_a-z](?:out|limited|granted)`, "verdicts in snake_case"},
}

// innocent are the same words in other meanings.
var innocent = regexp.MustCompile(`(?i)\bwall[ -](?:clock|time)|in other words`)

// old lists the replaced words in text, as "line: word: what to write". A phrase
// may continue on the next line.
func old(text string) (found []string) {
	text = innocent.ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat("x", len(s)) })
	for _, r := range replaced {
		for _, at := range compiled[r.words].FindAllStringIndex(text, -1) {
			line := strings.Count(text[:at[0]], "\n")
			found = append(found, fmt.Sprintf("line %d: %q: write %s", line+1, text[at[0]:at[1]], r.write))
		}
	}
	return found
}

var compiled = func() map[string]*regexp.Regexp {
	all := map[string]*regexp.Regexp{}
	for _, r := range replaced {
		all[r.words] = regexp.MustCompile(`(?i)(?:^|\b)(?:` + strings.ReplaceAll(r.words, " ", `[\s*]+`) + `)(?:\b|$|\s)`)
	}
	return all
}()

func TestWords(t *testing.T) {
	for _, f := range sources(t) {
		if f.name == "words_test.go" {
			continue
		}
		for _, c := range f.tree.Comments {
			report(t, f.pos(c), c.Text())
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				report(t, f.pos(lit), lit.Value)
			}
			return true
		})
	}
	for _, ending := range []string{".md", ".yml", "Makefile", "Dockerfile", ".service", ".sh", ".svg"} {
		for _, page := range tracked(t, ending) {
			if text := read(t, page); !finished(page, text) {
				report(t, page, text)
			}
		}
	}
}

// finished reports whether a page is a decision record of the first version:
// those keep their words.
func finished(page, text string) bool {
	date := regexp.MustCompile(`\nDate: (\S+)`).FindStringSubmatch(text)
	return path.Dir(page) == "docs/decisions" && date != nil && date[1] < "2026-11-30"
}

func report(t *testing.T, where, text string) {
	t.Helper()
	for _, f := range old(text) {
		t.Errorf("%s, %s", where, f)
	}
}

// The rule finds what it is there for, and leaves other meanings alone.
func TestWordsAreFound(t *testing.T) {
	for _, text := range []string{"tried by walking into each one", "no Wall stands here", "they give\nway", "until it is mended",
		"a wholly taken hub", "one caller's commands", "all callers' homes", `verdict="locked out"`, "the second gate"} {
		if len(old(text)) == 0 {
			t.Errorf("%q: nothing found", text)
		}
	}
	for _, text := range []string{"the wall clock", "a firewall", "wall time", "the caller closes it", "recommended", "in other words", "he walks the chain",
		"seeks alone", "the logic gate", `verdict=locked_out`, "it needs an underneath"} {
		if found := old(text); len(found) > 0 {
			t.Errorf("%q: %v", text, found)
		}
	}
}

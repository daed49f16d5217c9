package sallyport

import (
	"go/ast"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// A reader who follows a link that leads nowhere stops trusting the page.
func TestLinksResolve(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|href)="([^"]+)"`)
	seen := 0
	for _, page := range tracked(t, ".md") {
		for _, m := range link.FindAllStringSubmatch(withoutCode(read(t, page)), -1) {
			target := m[1] + m[2]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			seen++
			name, anchor, _ := strings.Cut(target, "#")
			if name == "" {
				name = page
			} else {
				name = path.Join(path.Dir(page), name)
			}
			if _, err := os.Stat(name); err != nil {
				t.Errorf("%s: the link %s leads nowhere", page, target)
				continue
			}
			if anchor != "" && strings.HasSuffix(name, ".md") && !anchors(read(t, name))[anchor] {
				t.Errorf("%s: %s has no heading #%s", page, name, anchor)
			}
		}
	}
	if seen == 0 {
		t.Error("no link found: this test reads the pages wrongly")
	}
}

// anchors are the names that GitHub gives to a page's headings.
func anchors(text string) map[string]bool {
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	names := map[string]bool{}
	for _, line := range strings.Split(withoutCode(text), "\n") {
		if title := strings.TrimLeft(line, "#"); title != line {
			name := drop.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			names[strings.ReplaceAll(name, " ", "-")] = true
		}
	}
	return names
}

// withoutCode drops fenced blocks, where brackets and hashes mean other things.
func withoutCode(text string) string {
	return regexp.MustCompile("(?ms)^ *```.*?^ *```$").ReplaceAllString(text, "")
}

// The README is read to its end only while it is short.
func TestReadmeIsShort(t *testing.T) {
	if n := strings.Count(read(t, "README.md"), "\n"); n >= 200 {
		t.Errorf("README.md has %d lines, the limit is 199", n)
	}
}

// A page that names a file of ours names one that exists.
func TestFilesNamedInPagesExist(t *testing.T) {
	name := regexp.MustCompile("`((?:plugin|sandboxd|jail|hub|dockerproxy|egress|login|owner|internal|deploy|docs|e2e)/[A-Za-z0-9_./-]+)`")
	seen := 0
	for _, page := range tracked(t, ".md") {
		for _, m := range name.FindAllStringSubmatch(read(t, page), -1) {
			seen++
			if _, err := os.Stat(strings.TrimSuffix(m[1], "/")); err != nil {
				t.Errorf("%s: there is no %s", page, m[1])
			}
		}
	}
	if seen == 0 {
		t.Error("no name found: this test reads the pages wrongly")
	}
}

// The threat model names the test behind each claim; a test that was renamed
// away would leave the claim without one.
func TestTestsNamedInPagesExist(t *testing.T) {
	have := map[string]bool{}
	for _, f := range sources(t) {
		for _, d := range f.tree.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.test {
				have[f.dir+" "+fn.Name.Name] = true
			}
		}
	}
	seen := 0
	for _, page := range tracked(t, ".md") {
		for _, m := range regexp.MustCompile("`([a-z0-9./]+ Test[A-Z][A-Za-z0-9]*)`").FindAllStringSubmatch(read(t, page), -1) {
			if seen++; !have[m[1]] {
				t.Errorf("%s: there is no test %s", page, m[1])
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d tests named: this test reads the pages wrongly", seen)
	}
}

// A page that the index does not name is found by nobody.
func TestPagesAreIndexed(t *testing.T) {
	index := read(t, "docs/README.md")
	for _, page := range tracked(t, ".md") {
		name, inside := strings.CutPrefix(page, "docs/")
		if !inside || name == "README.md" || strings.HasPrefix(name, "decisions/0") || strings.HasPrefix(name, "clients/") && name != "clients/README.md" ||
			strings.HasPrefix(name, "figures/") && name != "figures/README.md" {
			continue
		}
		if !strings.Contains(index, "]("+name+")") {
			t.Errorf("docs/README.md does not link %s", name)
		}
	}
}

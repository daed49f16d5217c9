package files

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// maxRules is how many lines of one ignore file are heeded.
const maxRules = 200

// ignoreFiles are read in this order in each directory; later lines win.
var ignoreFiles = []string{".gitignore", ".ignore"}

// rule is one line of an ignore file (gitignore(5)).
type rule struct {
	base    string // the directory of the file, "." for the workspace
	re      *regexp.Regexp
	negate  bool
	dirOnly bool
}

// rulesOf reads the ignore files of one directory. What cannot be read or
// understood ignores nothing, as in git.
func (w *Workspace) rulesOf(dir string) (rules []rule) {
	for _, name := range ignoreFiles {
		text, err := w.Read(path.Join(dir, name))
		if err != nil {
			continue
		}
		for line := range strings.Lines(text) {
			if r, ok := parseRule(dir, strings.TrimRight(line, "\r\n")); ok && len(rules) < maxRules {
				rules = append(rules, r)
			}
		}
	}
	return rules
}

func parseRule(dir, line string) (r rule, ok bool) {
	if strings.HasPrefix(line, "#") || len(line) > maxPattern {
		return rule{}, false
	}
	if trimmed := strings.TrimRight(line, " "); !strings.HasSuffix(trimmed, `\`) {
		line = trimmed
	}
	line, r.negate = strings.CutPrefix(line, "!")
	line, r.dirOnly = strings.CutSuffix(line, "/")
	if line == "" {
		return rule{}, false
	}
	r.base = dir
	var err error
	r.re, err = translate(line, false)
	return r, err == nil
}

// ignored decides by the last rule that means name.
func ignored(rules []rule, name string, isDir bool) bool {
	for _, r := range slices.Backward(rules) {
		rel, below := name, true
		if r.base != "." {
			rel, below = strings.CutPrefix(name, r.base+"/")
		}
		if below && (isDir || !r.dirOnly) && r.re.MatchString(rel) {
			return !r.negate
		}
	}
	return false
}

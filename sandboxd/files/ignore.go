package files

import (
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
)

// maxIgnore is how many bytes of ignore files are read for one entry, all
// directories above it together: each line costs memory, and time at every entry.
const maxIgnore = 32 << 10

// rule is one line of an ignore file (gitignore(5)).
type rule struct {
	prefix  string // of paths in the directory of the file
	re      *regexp.Regexp
	negate  bool
	dirOnly bool
}

// inForce are the rules in force in a directory.
type inForce struct {
	rules []rule
	read  int // bytes of their files
}

// in adds the ignore files of a directory further down. What cannot be read or
// understood ignores nothing, as in git.
func (h inForce) in(w *Workspace, dir string) inForce {
	h.rules = slices.Clip(h.rules)
	names := []string{".gitignore", ".ignore"} // later lines win
	if dir == "." {
		names = append([]string{".git/info/exclude"}, names...)
	}
	for _, name := range names {
		for line := range strings.Lines(w.ignoreFile(path.Join(dir, name))) {
			if h.read += len(line); h.read > maxIgnore {
				break
			}
			if r, ok := parseRule(dir, strings.TrimRight(line, "\r\n")); ok {
				h.rules = append(h.rules, r)
			}
		}
	}
	return h
}

// ignoreFile is the beginning of an ignore file, whatever its encoding: git reads
// bytes, and passes over a byte order mark.
func (w *Workspace) ignoreFile(name string) string {
	f, _, err := w.openRegular(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, maxIgnore+1))
	return strings.TrimPrefix(string(data), "\ufeff")
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
	re, err := translate(bytewise(line), false)
	r.prefix, r.re = strings.TrimPrefix(dir+"/", "./"), re
	return r, err == nil
}

// ignored decides by the last rule that means name.
func (h inForce) ignored(name string, isDir bool) bool {
	for _, r := range slices.Backward(h.rules) {
		rel, below := strings.CutPrefix(name, r.prefix)
		if below && (isDir || !r.dirOnly) && r.re.MatchString(bytewise(rel)) {
			return !r.negate
		}
	}
	return false
}

// bytewise has a character for each byte of s, since git matches bytes: ? is half an é.
func bytewise(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 }) {
		return s
	}
	all := make([]rune, len(s))
	for i := range len(s) {
		all[i] = rune(s[i])
	}
	return string(all)
}

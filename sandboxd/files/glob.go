package files

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// maxPattern is the longest glob or regular expression, in bytes.
const maxPattern = 1000

// Glob is a path pattern: * and ? within a name, ** across directories,
// [classes], {alternatives}. Without a slash it means the last name of a path,
// at any depth; with one it means the path from the workspace.
type Glob struct{ re *regexp.Regexp }

// NewGlob compiles pattern; the empty one matches everything.
func NewGlob(pattern string) (Glob, error) {
	if pattern == "" {
		return Glob{}, nil
	}
	if len(pattern) > maxPattern {
		return Glob{}, fmt.Errorf("the glob is longer than %d bytes", maxPattern)
	}
	re, err := translate(plain(pattern), true)
	if err != nil {
		return Glob{}, fmt.Errorf("the glob %s is not valid: %w", quote(pattern), err)
	}
	return Glob{re}, nil
}

// plain understands what models also write: ./*.txt for *.txt from the
// workspace, docs/ for all that is in it, and *.c,*.h for a list.
func plain(pattern string) string {
	depth := 0
	list := strings.FieldsFunc(pattern, func(c rune) bool {
		switch c {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		return c == ',' && depth <= 0
	})
	for i, one := range list {
		one = strings.TrimSpace(one)
		if rest, ok := strings.CutPrefix(one, "./"); ok {
			one = "/" + rest
		}
		if strings.HasSuffix(one, "/") {
			one += "**"
		}
		list[i] = one
	}
	if len(list) == 1 {
		return list[0]
	}
	list = append(list, strings.ReplaceAll(pattern, ",", `\,`)) // a name may have a comma
	for i, one := range list {
		if !strings.Contains(one, "/") {
			one = "**/" + one // the list as a whole may have a slash
		}
		list[i] = strings.TrimPrefix(one, "/")
	}
	return "{" + strings.Join(list, ",") + "}"
}

// Match reports whether the glob means the path name.
func (g Glob) Match(name string) bool { return g.re == nil || g.re.MatchString(name) }

// translate makes a regular expression of a glob, also of a line of an ignore
// file, where braces are ordinary characters. RE2 takes linear time whatever
// the pattern is.
func translate(glob string, braces bool) (*regexp.Regexp, error) {
	var b strings.Builder
	b.WriteString("^")
	if !strings.Contains(glob, "/") {
		b.WriteString("(?:.*/)?")
	}
	rest, depth := strings.TrimPrefix(glob, "/"), 0
	for rest != "" {
		n, out := 1, regexp.QuoteMeta(rest[:1])
		switch c := rest[0]; {
		case strings.HasPrefix(rest, "**/"):
			n, out = 3, "(?:.*/)?"
		case strings.HasPrefix(rest, "**"):
			n, out = 2, ".*"
		case c == '*':
			out = "[^/]*"
		case c == '?':
			out = "[^/]"
		case c == '\\' && len(rest) > 1:
			n, out = 2, regexp.QuoteMeta(rest[1:2])
		case c == '[':
			if end := classEnd(rest); end > 0 {
				n, out = end, class(rest[1:end-1])
			}
		case c == '{' && braces:
			depth, out = depth+1, "(?:"
		case c == '}' && depth > 0:
			depth, out = depth-1, ")"
		case c == ',' && depth > 0:
			out = "|"
		case c >= 0x80:
			n = len(rest) - len(strings.TrimLeftFunc(rest, func(r rune) bool { return r >= 0x80 }))
			out = regexp.QuoteMeta(rest[:n])
		}
		b.WriteString(out)
		rest = rest[n:]
	}
	if depth > 0 {
		return nil, errors.New("a { has no }")
	}
	return regexp.Compile("(?s)" + b.String() + "$")
}

// classEnd is the length of the [class] that text begins with, or 0. A ]
// that comes first belongs to the class.
func classEnd(text string) int {
	i := 1
	if i < len(text) && (text[i] == '!' || text[i] == '^') {
		i++
	}
	for first := i; i < len(text); i++ {
		if text[i] == ']' && i > first {
			return i + 1
		}
		for _, name := range posixClasses {
			if strings.HasPrefix(text[i:], name) {
				i += len(name) - 1
			}
		}
	}
	return 0
}

// posixClasses are the classes of POSIX within a [class], which RE2 has too.
var posixClasses = []string{
	"[:alnum:]", "[:alpha:]", "[:blank:]", "[:cntrl:]", "[:digit:]", "[:graph:]", "[:lower:]", "[:print:]",
	"[:punct:]", "[:space:]", "[:upper:]", "[:xdigit:]",
}

// literal escapes what has a meaning in a class of RE2, but for those.
var literal = func() *strings.Replacer {
	var pairs []string
	for _, name := range posixClasses {
		pairs = append(pairs, name, name)
	}
	return strings.NewReplacer(append(pairs, `\`, `\\`, "[", `\[`, "]", `\]`, "^", `\^`, "&", `\&`, "~", `\~`)...)
}()

func class(inside string) string {
	not := ""
	if rest, ok := strings.CutPrefix(inside, "!"); ok {
		not, inside = "^/", rest
	} else if rest, ok := strings.CutPrefix(inside, "^"); ok {
		not, inside = "^/", rest
	}
	return "[" + not + literal.Replace(inside) + "]"
}

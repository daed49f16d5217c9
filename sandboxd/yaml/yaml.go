// Package yaml reads the part of YAML that traefik-dynamic.yml and its like are
// written in: block mappings and sequences, flow ones on one line, plain and
// quoted scalars, folded text, comments. Anchors, tags, several documents, tabs
// and whatever else is not read with certainty is an error: a plan made from
// half a file would be worse than none.
package yaml

import (
	"fmt"
	"strings"
	"unicode"
)

type line struct {
	number, indent int
	text           string
	cut            bool // a comment was taken away
}

type parser struct {
	lines    []line
	comments []line // those that hold nothing else
	next     int
}

// Parse returns map[string]any, []any, string and nil. Numbers and booleans stay
// the text that they are written as.
func Parse(raw []byte) (v any, err error) {
	p := &parser{}
	defer func() {
		if r := recover(); r != nil {
			bad, ok := r.(unreadable)
			if !ok {
				panic(r)
			}
			v, err = nil, bad
		}
	}()
	for i, full := range strings.Split(string(raw), "\n") {
		text := strings.TrimRight(stripComment(full), " ")
		body := strings.TrimLeft(text, " ")
		if strings.IndexFunc(full, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 {
			return nil, unreadable(fmt.Sprintf("line %d cannot be read with certainty: a tab or another character that is not printed", i+1))
		}
		if body == "" && full != "" {
			p.comments = append(p.comments, line{number: i + 1, indent: len(full) - len(strings.TrimLeft(full, " "))})
		}
		if body != "" {
			p.lines = append(p.lines, line{i + 1, len(text) - len(body), body, len(text) < len(strings.TrimRight(full, " "))})
		}
	}
	if len(p.lines) == 0 {
		return nil, nil
	}
	v = p.block(p.lines[0].indent)
	if p.next < len(p.lines) {
		p.fail("the indentation fits nothing above")
	}
	return v, nil
}

type unreadable string

func (e unreadable) Error() string { return string(e) }

func (p *parser) fail(why string) {
	n := p.lines[min(p.next, len(p.lines)-1)].number
	panic(unreadable(fmt.Sprintf("line %d cannot be read with certainty: %s", n, why)))
}

// block reads the mapping or sequence at this indentation.
func (p *parser) block(indent int) any {
	if isItem(p.lines[p.next].text) {
		list := []any{}
		for p.next < len(p.lines) && p.lines[p.next].indent == indent && isItem(p.lines[p.next].text) {
			l := &p.lines[p.next]
			rest := strings.TrimLeft(l.text[1:], " ")
			if _, _, pair := cutPair(rest); !pair {
				p.next++
				list = append(list, p.value(rest, indent, false))
				continue
			}
			l.indent, l.text = indent+len(l.text)-len(rest), rest // a mapping that starts beside the dash
			list = append(list, p.block(l.indent))
		}
		return list
	}
	m := map[string]any{}
	for p.next < len(p.lines) && p.lines[p.next].indent == indent {
		key, rest, ok := cutPair(p.lines[p.next].text)
		if !ok || isItem(p.lines[p.next].text) {
			p.fail("neither a key nor an item")
		}
		name, plain := p.scalar(key).(string)
		if _, twice := m[name]; twice || !plain {
			p.fail("a key that is no text, or stands twice")
		}
		p.next++
		m[name] = p.value(rest, indent, true)
	}
	return m
}

// value reads what follows a key or a dash. A key's sequence may stand as far to
// the left as the key.
func (p *parser) value(rest string, indent int, key bool) any {
	deeper := p.next < len(p.lines) && (p.lines[p.next].indent > indent || key && p.lines[p.next].indent == indent && isItem(p.lines[p.next].text) && rest == "")
	switch {
	case rest == "" && deeper:
		return p.block(p.lines[p.next].indent)
	case rest == "":
		return nil
	case rest == ">" || rest == ">-" || rest == "|" || rest == "|-":
		from := p.lines[p.next-1].number
		var text []string
		for ; p.next < len(p.lines) && p.lines[p.next].indent > indent; p.next++ {
			if p.lines[p.next].cut {
				p.fail("a # in folded text")
			}
			text = append(text, strings.Fields(p.lines[p.next].text)...)
		}
		for _, c := range p.comments {
			if c.number > from && c.indent > indent && (p.next == len(p.lines) || c.number < p.lines[p.next].number) {
				p.fail("a # in folded text")
			}
		}
		return strings.Join(text, " ")
	}
	if deeper && p.lines[p.next].indent > indent {
		p.fail("a value that goes on")
	}
	p.next-- // so that a mistake names this line
	v, left := p.flow(rest)
	if strings.TrimSpace(left) != "" {
		p.fail("something follows the value")
	}
	p.next++
	return v
}

// flow reads a value on one line and returns what follows it.
func (p *parser) flow(s string) (any, string) {
	s = strings.TrimLeft(s, " ")
	if s == "" {
		p.fail("a value is missing")
	}
	switch s[0] {
	case '[':
		list := []any{}
		for s = strings.TrimLeft(s[1:], " "); !strings.HasPrefix(s, "]"); s = p.separator(s, ']') {
			var v any
			v, s = p.flow(s)
			list = append(list, v)
		}
		return list, s[1:]
	case '{':
		m := map[string]any{}
		for s = strings.TrimLeft(s[1:], " "); !strings.HasPrefix(s, "}"); s = p.separator(s, '}') {
			key, rest, ok := cutPair(s)
			if !ok || strings.ContainsAny(key, ",[]{}") {
				p.fail("a flow mapping without a key")
			}
			m[fmt.Sprint(p.scalar(key))], s = p.flow(rest)
		}
		return m, s[1:]
	case '"', '\'':
		end := strings.IndexByte(s[1:], s[0])
		if end < 0 || strings.Contains(s[1:end+1], `\`) || strings.HasPrefix(s[end+2:], s[:1]) {
			p.fail("a quoted text with escapes or without an end")
		}
		return s[1 : end+1], s[end+2:]
	}
	end := strings.IndexAny(s, ",]}")
	if end < 0 {
		end = len(s)
	}
	return p.scalar(s[:end]), s[end:]
}

func (p *parser) separator(s string, end byte) string {
	s = strings.TrimLeft(s, " ")
	if s == "" || s[0] != ',' && s[0] != end {
		p.fail("a flow collection without an end on its line")
	}
	return strings.TrimLeft(strings.TrimPrefix(s, ","), " ")
}

// scalar keeps numbers and booleans as they are written.
func (p *parser) scalar(s string) any {
	s = strings.TrimSpace(s)
	if len(s) > 1 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] && !strings.ContainsAny(s[1:len(s)-1], `\"'`) {
		return s[1 : len(s)-1]
	}
	if s == "" || strings.ContainsAny(s[:1], "&*!%@`?|>\"'#") || strings.ContainsAny(s, "\"'") || isItem(s) || strings.HasPrefix(s, "---") || strings.HasPrefix(s, "<<") {
		p.fail("an anchor, a tag or another mark that is not understood here")
	}
	return s
}

func isItem(s string) bool { return s == "-" || strings.HasPrefix(s, "- ") }

// cutPair splits "key: value" at the first colon outside quotes.
func cutPair(s string) (key, rest string, ok bool) {
	if s == "" || strings.ContainsRune("[{", rune(s[0])) {
		return "", "", false
	}
	quote := rune(0)
	for i, r := range s {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote = r
		case quote == 0 && r == ':' && (i+1 == len(s) || s[i+1] == ' '):
			return s[:i], strings.TrimLeft(s[i+1:], " "), true
		}
	}
	return "", "", false
}

// stripComment cuts at a # that starts the line or follows a blank, outside
// quotes.
func stripComment(s string) string {
	quote := rune(0)
	for i, r := range s {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote = r
		case quote == 0 && r == '#' && (i == 0 || s[i-1] == ' '):
			return s[:i]
		}
	}
	return s
}

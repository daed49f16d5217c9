package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Span is a half-open byte range in a text. The zero Span means "absent".
type Span struct{ Start, End int }

// Present reports whether the range was found.
func (s Span) Present() bool { return s.End > s.Start }

// TwiceError is a key that an object has more than once. Two readers may take two
// different values of it.
type TwiceError struct{ Key string }

// Error names the key.
func (e *TwiceError) Error() string { return fmt.Sprintf("the key %.80q is there twice", e.Key) }

// What is wrong with a string.
var (
	ErrEncoding  = errors.New("not valid UTF-8")
	ErrSurrogate = errors.New(`half of a surrogate pair (\ud800 to \udfff), which is no character`)
)

// A Cursor reads one JSON text from left to right and copies nothing. It stands
// before a value; what reads the value leaves it behind. Every strict reader here
// is made of it: it decides what the members of an object are.
type Cursor struct {
	raw []byte
	at  int
}

// Open checks that data is one JSON value in UTF-8 and stands before it.
func Open(data []byte) (*Cursor, error) {
	if !utf8.Valid(data) {
		return nil, ErrEncoding
	}
	if !json.Valid(data) { // Unmarshal names the offset
		var whole json.RawMessage
		return nil, position(data, json.Unmarshal(data, &whole))
	}
	return At(data, 0), nil
}

// At stands before the value at start in raw, which must be valid JSON.
func At(raw []byte, start int) *Cursor { return &Cursor{raw, space(raw, start)} }

// Kind is the first byte of the value: { [ " t f n - or a digit.
func (c *Cursor) Kind() byte { return c.raw[c.at] }

// Skip passes the value and returns where it stands.
func (c *Cursor) Skip() Span {
	start := c.at
	c.at = skip(c.raw, start)
	return Span{start, c.at}
}

// Raw passes the value and returns its bytes.
func (c *Cursor) Raw() []byte {
	s := c.Skip()
	return c.raw[s.Start:s.End:s.End]
}

// Text passes a string and returns it.
func (c *Cursor) Text() (string, error) { return Text(c.Raw()) }

// Text decodes a string as it is written in JSON. What is no valid text is an
// error, where encoding/json puts U+FFFD.
func Text(raw []byte) (text string, err error) {
	escaped := false
	for i := 0; i < len(raw)-1; i++ {
		if raw[i] != '\\' {
			continue
		}
		escaped = true
		if i++; raw[i] != 'u' || !utf16.IsSurrogate(unit(raw, i-1)) {
			continue
		}
		if utf16.DecodeRune(unit(raw, i-1), unit(raw, i+5)) == utf8.RuneError {
			return "", ErrSurrogate
		}
		i += 10
	}
	switch {
	case !utf8.Valid(raw):
		return "", ErrEncoding
	case escaped || len(raw) < 2 || raw[0] != '"':
		return text, json.Unmarshal(raw, &text)
	}
	return string(raw[1 : len(raw)-1]), nil
}

// unit is the UTF-16 unit of the escape at i, or 0 where there is none.
func unit(raw []byte, i int) rune {
	if i+6 > len(raw) || raw[i] != '\\' || raw[i+1] != 'u' {
		return 0
	}
	n, _ := strconv.ParseUint(string(raw[i+2:i+6]), 16, 16)
	return rune(n)
}

// Object passes an object. member is called for each of its members, with the
// cursor before the value, which it must pass. A key that is there twice is a
// *TwiceError.
func (c *Cursor) Object(member func(key string) error) error {
	return c.members(func(key string, twice bool) error {
		if twice {
			return &TwiceError{key}
		}
		return member(key)
	})
}

func (c *Cursor) members(member func(key string, twice bool) error) error {
	seen := map[string]bool{}
	for c.at = space(c.raw, c.at+1); c.raw[c.at] != '}'; c.next() {
		key, err := c.Text()
		if err != nil {
			return fmt.Errorf("a key: %w", err)
		}
		c.at = space(c.raw, space(c.raw, c.at)+1) // behind the colon
		if err := member(key, seen[key]); err != nil {
			return err
		}
		seen[key] = true
	}
	c.at++
	return nil
}

// Array passes an array. element is called for each of its elements, with the
// cursor before it, and must pass it.
func (c *Cursor) Array(element func() error) error {
	for c.at = space(c.raw, c.at+1); c.raw[c.at] != ']'; c.next() {
		if err := element(); err != nil {
			return err
		}
	}
	c.at++
	return nil
}

// next passes the comma behind a member or an element, where there is one.
func (c *Cursor) next() {
	if c.at = space(c.raw, c.at); c.raw[c.at] == ',' {
		c.at = space(c.raw, c.at+1)
	}
}

func space(raw []byte, i int) int {
	for raw[i] == ' ' || raw[i] == '\t' || raw[i] == '\n' || raw[i] == '\r' {
		i++
	}
	return i
}

// skip is the index after the value that starts at i.
func skip(raw []byte, i int) int {
	switch raw[i] {
	case '"':
		return skipString(raw, i)
	case '{', '[':
		for depth := 0; ; {
			switch raw[i] {
			case '"':
				i = skipString(raw, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
	}
	for i < len(raw) && strings.IndexByte(" \t\r\n,]}", raw[i]) < 0 {
		i++
	}
	return i
}

func skipString(raw []byte, i int) int {
	for i++; raw[i] != '"'; i++ {
		if raw[i] == '\\' {
			i++
		}
	}
	return i + 1
}

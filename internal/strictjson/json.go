// Package strictjson reads JSON whose every byte counts: duplicate keys, other
// spellings, invalid UTF-8, trailing data and deep nesting are mistakes.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// maxDepth of nested arrays and objects; a configuration needs five.
const maxDepth = 32

// Object keeps what encoding/json folds away: spelling and duplicates. Two
// readers that disagree about a duplicate key are how a policy is bypassed.
type Object struct {
	Keys       []string // in the order written, each once
	Values     map[string]any
	Duplicates []string
}

// Decode reads exactly one JSON value: *Object, []any, string, json.Number,
// bool or nil. It refuses invalid UTF-8, NUL, U+FFFD, escapes of lone surrogates,
// trailing data and deep nesting.
func Decode(data []byte) (any, error) {
	c, err := Open(data)
	if err != nil {
		return nil, err
	}
	return c.value(0)
}

func position(data []byte, err error) error {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) || syntax.Offset < 1 {
		return err
	}
	before := data[:min(int(syntax.Offset), len(data))]
	line := 1 + bytes.Count(before, []byte{'\n'})
	return fmt.Errorf("line %d, column %d: %w", line, len(before)-1-bytes.LastIndexByte(before, '\n'), err)
}

func (c *Cursor) value(depth int) (any, error) {
	switch kind := c.Kind(); kind {
	case '{', '[':
		if depth == maxDepth {
			return nil, fmt.Errorf("nested deeper than %d", maxDepth)
		}
		if kind == '{' {
			return c.object(depth)
		}
		list := []any{}
		err := c.Array(func() error {
			v, err := c.value(depth + 1)
			list = append(list, v)
			return err
		})
		return list, err
	case '"':
		text, err := c.Text()
		return text, errors.Join(err, checkText(text))
	case 't', 'f':
		return kind == 't', c.pass()
	case 'n':
		return nil, c.pass()
	}
	return json.Number(c.Raw()), nil
}

func (c *Cursor) pass() error {
	c.Skip()
	return nil
}

func (c *Cursor) object(depth int) (any, error) {
	o := &Object{Values: map[string]any{}}
	err := c.members(func(key string, twice bool) error {
		v, err := c.value(depth + 1)
		if twice {
			o.Duplicates = append(o.Duplicates, key)
			return err
		}
		o.Keys = append(o.Keys, key)
		o.Values[key] = v
		return errors.Join(err, checkText(key))
	})
	return o, err
}

func checkText(s string) error {
	if strings.ContainsAny(s, "\x00\ufffd") {
		return errors.New("a string contains NUL or U+FFFD")
	}
	return nil
}

// Plain turns a decoded value into what encoding/json sorts by key.
func Plain(v any) any {
	switch v := v.(type) {
	case *Object:
		m := make(map[string]any, len(v.Values))
		for key, value := range v.Values {
			m[key] = Plain(value)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = Plain(v[i])
		}
		return list
	default:
		return v
	}
}

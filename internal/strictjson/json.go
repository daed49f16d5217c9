// Package strictjson reads JSON whose every byte counts: duplicate keys, other
// spellings, invalid UTF-8, trailing data and deep nesting are mistakes.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
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
// bool or nil. It refuses invalid UTF-8, NUL, escapes of lone surrogates,
// trailing data and deep nesting.
func Decode(data []byte) (any, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("not valid UTF-8")
	}
	// Unmarshal names the offset of a syntax error, Token does not.
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		return nil, position(data, err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return value(d, 0)
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

func value(d *json.Decoder, depth int) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Delim:
		if depth == maxDepth {
			return nil, fmt.Errorf("nested deeper than %d", maxDepth)
		}
		if token == '[' {
			return array(d, depth)
		}
		return members(d, depth)
	case string:
		return token, checkText(token)
	default:
		return token, nil
	}
}

func array(d *json.Decoder, depth int) (any, error) {
	list := []any{}
	for d.More() {
		v, err := value(d, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := d.Token()
	return list, err
}

func members(d *json.Decoder, depth int) (any, error) {
	o := &Object{Values: map[string]any{}}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		key := token.(string) // the grammar was checked before
		if err := checkText(key); err != nil {
			return nil, err
		}
		v, err := value(d, depth+1)
		if err != nil {
			return nil, err
		}
		if _, found := o.Values[key]; found {
			o.Duplicates = append(o.Duplicates, key)
			continue
		}
		o.Keys = append(o.Keys, key)
		o.Values[key] = v
	}
	_, err := d.Token()
	return o, err
}

func checkText(s string) error {
	if strings.ContainsRune(s, 0) {
		return errors.New("a string contains NUL")
	}
	if strings.ContainsRune(s, utf8.RuneError) { // what a lone surrogate becomes
		return errors.New("a string contains U+FFFD or half of a surrogate pair")
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

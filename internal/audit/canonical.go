package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// maxDepth is how deep arguments may be nested: far more than any tool needs,
// and far less than what would exhaust the stack.
const maxDepth = 500

// Canonical returns JSON with sorted keys, without white space, strings in one
// spelling and numbers as they were written. Two texts with the same canonical
// form mean the same to every reader. Duplicate keys are an error, since two
// readers may see two different values. Empty input is the empty object, as
// MCP has it for a call without arguments.
func Canonical(text []byte) ([]byte, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return []byte("{}"), nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	out, err := appendValue(nil, d, maxDepth)
	if err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("arguments: there is something after the JSON value")
	}
	return out, nil
}

func appendValue(out []byte, d *json.Decoder, depth int) ([]byte, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	if depth == 0 {
		return nil, fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	switch token {
	case json.Delim('{'):
		return appendObject(out, d, depth-1)
	case json.Delim('['):
		out = append(out, '[')
		for i := 0; d.More(); i++ {
			if i > 0 {
				out = append(out, ',')
			}
			if out, err = appendValue(out, d, depth-1); err != nil {
				return nil, err
			}
		}
		_, err = d.Token()
		return append(out, ']'), err
	}
	return appendScalar(out, token)
}

func appendObject(out []byte, d *json.Decoder, depth int) ([]byte, error) {
	members := map[string][]byte{}
	var names []string
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		name := token.(string) // the decoder accepts nothing else here
		if _, twice := members[name]; twice {
			return nil, fmt.Errorf("the key %q is there twice", name)
		}
		names = append(names, name)
		if members[name], err = appendValue(nil, d, depth); err != nil {
			return nil, err
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	slices.Sort(names)
	out = append(out, '{')
	for i, name := range names {
		if i > 0 {
			out = append(out, ',')
		}
		out, _ = appendScalar(out, name)
		out = append(append(out, ':'), members[name]...)
	}
	return append(out, '}'), nil
}

// appendScalar cannot fail for what a decoder returns.
func appendScalar(out []byte, v any) ([]byte, error) {
	text, err := json.Marshal(v)
	return append(out, text...), err
}

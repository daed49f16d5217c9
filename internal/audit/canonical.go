package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/sallyport-dev/sallyport/internal/strictjson"
)

// maxDepth is how deep arguments may be nested: far more than any tool needs,
// and far less than what would exhaust the stack.
const maxDepth = 500

// Canonical returns JSON with sorted keys, without white space, strings in one
// spelling and numbers as they were written. Two texts with the same canonical
// form mean the same to every reader. So duplicate keys and half surrogates are
// errors: two readers may see two different values. Empty input is the empty
// object, as MCP has it for a call without arguments.
func Canonical(text []byte) ([]byte, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return []byte("{}"), nil
	}
	c, err := strictjson.Open(text)
	if err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	out, err := appendValue(nil, c, maxDepth)
	if err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	return out, nil
}

func appendValue(out []byte, c *strictjson.Cursor, depth int) ([]byte, error) {
	if depth == 0 {
		return nil, fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	switch c.Kind() {
	case '{':
		return appendObject(out, c, depth-1)
	case '[':
		out = append(out, '[')
		first := len(out)
		err := c.Array(func() (err error) {
			if len(out) > first {
				out = append(out, ',')
			}
			out, err = appendValue(out, c, depth-1)
			return err
		})
		return append(out, ']'), err
	case '"':
		text, err := c.Text()
		if err != nil {
			return nil, err
		}
		return appendText(out, text), nil
	}
	return append(out, c.Raw()...), nil
}

func appendObject(out []byte, c *strictjson.Cursor, depth int) ([]byte, error) {
	members := map[string][]byte{}
	err := c.Object(func(name string) (err error) {
		members[name], err = appendValue(nil, c, depth)
		return err
	})
	if err != nil {
		return nil, err
	}
	out = append(out, '{')
	for i, name := range slices.Sorted(maps.Keys(members)) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(appendText(out, name), ':'), members[name]...)
	}
	return append(out, '}'), nil
}

func appendText(out []byte, s string) []byte {
	text, _ := json.Marshal(s) // a string cannot fail
	return append(out, text...)
}

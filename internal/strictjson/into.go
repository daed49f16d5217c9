package strictjson

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Into reads exactly one JSON value into v, a pointer, as encoding/json does, but
// takes every key as the tags of v write it: an unknown key, another case, a
// duplicate, half a surrogate pair, deep nesting and trailing data are errors.
// Structs must not be embedded in one another.
func Into(data []byte, v any) error {
	c, err := Open(data)
	if err != nil {
		return err
	}
	if err := c.fits(reflect.TypeOf(v), 0); err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// fits passes a value that is to become a t; without t it is nobody's yet.
func (c *Cursor) fits(t reflect.Type, depth int) error {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch c.Kind() {
	case '{', '[':
		if depth == maxDepth {
			return fmt.Errorf("nested deeper than %d", maxDepth)
		}
		if c.Kind() == '[' {
			return c.Array(func() error { return c.fits(element(t), depth+1) })
		}
		return c.Object(func(key string) error {
			of, err := member(t, key)
			if err == nil {
				err = c.fits(of, depth+1)
			}
			return err
		})
	case '"':
		_, err := c.Text()
		return err
	}
	return c.pass()
}

func element(t reflect.Type) reflect.Type {
	if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array || t.Kind() == reflect.Map) {
		return t.Elem()
	}
	return nil
}

// member is the type of the member key of a t.
func member(t reflect.Type, key string) (reflect.Type, error) {
	if t == nil || t.Kind() != reflect.Struct {
		return element(t), nil
	}
	advice := ""
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == key && name != "-" {
			return t.Field(i).Type, nil
		}
		if strings.EqualFold(name, key) {
			advice = fmt.Sprintf("; it is spelled %q", name)
		}
	}
	return nil, fmt.Errorf("%.80q is not a known field%s", key, advice)
}

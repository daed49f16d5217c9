package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/strictjson"
)

// property is one argument of a tool.
type property struct {
	name, kind, text string
	required         bool
}

func need(name, kind, text string) property { return property{name, kind, text, true} }
func may(name, kind, text string) property  { return property{name, kind, text, false} }

// schema is a tool's input schema. It is written by hand because the inferred
// one says ["null","integer"] for an optional number, which several clients'
// converters refuse.
func schema(props []property) map[string]any {
	fields, required := map[string]any{}, []string{}
	for _, p := range props {
		fields[p.name] = map[string]any{"type": p.kind, "description": p.text}
		if p.required {
			required = append(required, p.name)
		}
	}
	return map[string]any{"type": "object", "properties": fields, "required": required, "additionalProperties": false}
}

// read puts the arguments of a call into the struct that in points to, by its
// json tags. It takes what models send: null for an optional argument that is
// absent, 90.0 and "90" for a number, "true" for a boolean, and all arguments as
// one string of JSON. What could be meant in two ways is refused: a key that is
// there twice, an unknown one, half of a surrogate pair. Errors tell a model
// what to do.
func read(raw json.RawMessage, props []property, in any) error {
	members, err := object(raw)
	if err != nil {
		return err
	}
	fields := reflect.ValueOf(in).Elem()
	for _, p := range props {
		value, given := members[p.name]
		delete(members, p.name)
		if !given || string(value) == "null" {
			if p.required {
				return fmt.Errorf("the argument %q is missing: %s", p.name, p.text)
			}
			continue
		}
		if err := p.set(field(fields, p.name), value); err != nil {
			return err
		}
	}
	for name := range members {
		return unknown(name, props)
	}
	return nil
}

func unknown(name string, props []property) error {
	var names []string
	for _, p := range props {
		if strings.EqualFold(p.name, name) {
			return fmt.Errorf("there is no argument %q: it is written %q", name, p.name)
		}
		names = append(names, p.name)
	}
	return fmt.Errorf("there is no argument %.80q: the arguments are %s", name, strings.Join(names, ", "))
}

// object splits a JSON object, or a string that holds one, into its members.
func object(raw json.RawMessage) (map[string]json.RawMessage, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return map[string]json.RawMessage{}, nil
	}
	wrong := errors.New(`the arguments must be a JSON object, such as {"path": "README.md"}`)
	if raw[0] == '"' {
		var inner string
		if json.Unmarshal(raw, &inner) != nil {
			return nil, wrong
		}
		raw = []byte(inner)
	}
	c, err := strictjson.Open(raw)
	if err != nil || c.Kind() != '{' {
		return nil, wrong
	}
	members := map[string]json.RawMessage{}
	err = c.Object(func(name string) error {
		members[name] = c.Raw()
		return nil
	})
	if twice := (*strictjson.TwiceError)(nil); errors.As(err, &twice) {
		return nil, fmt.Errorf("the argument %.80q is there twice: give it once", twice.Key)
	}
	return members, err
}

// field is the field of a struct with this json tag.
func field(fields reflect.Value, name string) reflect.Value {
	for i := range fields.NumField() {
		if fields.Type().Field(i).Tag.Get("json") == name {
			return fields.Field(i)
		}
	}
	panic("tool: no field for the argument " + name)
}

func (p property) set(to reflect.Value, raw json.RawMessage) error {
	switch p.kind {
	case "string":
		text, err := strictjson.Text(raw)
		if errors.Is(err, strictjson.ErrSurrogate) {
			return fmt.Errorf("%s contains %w: write the character itself", p.name, err)
		}
		if err != nil {
			return fmt.Errorf("%s must be text in quotes, not %.40s", p.name, raw)
		}
		to.SetString(text)
	case "boolean":
		yes := slices.Contains([]string{`true`, `"true"`}, string(raw))
		if !yes && !slices.Contains([]string{`false`, `"false"`}, string(raw)) {
			return fmt.Errorf("%s must be true or false, not %.40s", p.name, raw)
		}
		to.SetBool(yes)
	default:
		n, err := number(string(raw))
		if err != nil {
			return fmt.Errorf("%s must be a whole number such as 10, not %.40s", p.name, raw)
		}
		to.Set(reflect.ValueOf(&n))
	}
	return nil
}

// number reads a number without a fraction, written as JSON has it or in quotes.
func number(raw string) (int, error) {
	raw = strings.TrimSpace(strings.Trim(raw, `"`))
	if n, err := strconv.Atoi(raw); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(raw, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 || strings.ContainsAny(raw, "xX_nN") {
		return 0, errors.New("not a whole number")
	}
	return int(f), nil
}

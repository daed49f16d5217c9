package spec

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Mistakes are everything that is wrong with one entry.
type Mistakes []string

// Error lists all mistakes, one a line when there are several.
func (m Mistakes) Error() string {
	if len(m) == 1 {
		return m[0]
	}
	return fmt.Sprintf("%d mistakes:\n  %s", len(m), strings.Join(m, "\n  "))
}

// reader takes values out of decoded JSON and collects every mistake.
type reader struct {
	mistakes Mistakes
	warnings []string
}

func (r *reader) fail(field, format string, args ...any) {
	r.mistakes = append(r.mistakes, field+": "+fmt.Sprintf(format, args...))
}

func (r *reader) err() error {
	if len(r.mistakes) == 0 {
		return nil
	}
	return r.mistakes
}

// fields calls the reader of each key. An unknown key is a mistake: a typo in
// "readOnly" must not leave the default in force unnoticed.
func (r *reader) fields(o *object, known map[string]func(field string, v any), advice func(key string) string) {
	for _, key := range o.duplicates {
		r.fail(key, "is there more than once")
	}
	for _, key := range o.keys {
		if read := known[key]; read != nil {
			read(key, o.values[key])
			continue
		}
		text := "is not a known field"
		for right := range known {
			if strings.EqualFold(right, key) {
				text += fmt.Sprintf("; it is spelled %q", right)
			}
		}
		if more := advice(key); more != "" {
			text = more
		}
		r.fail(strconv.Quote(key), "%s", text)
	}
}

func (r *reader) text(field string, v any) string {
	s, ok := v.(string)
	if !ok || s == "" {
		r.fail(field, "must be a string that is not empty")
	}
	return s
}

func (r *reader) list(field string, v any) []string {
	raw, ok := v.([]any)
	if !ok {
		r.fail(field, "must be an array of strings")
		return nil
	}
	list := make([]string, 0, len(raw))
	for i, item := range raw {
		s, ok := item.(string)
		if !ok {
			r.fail(fmt.Sprintf("%s[%d]", field, i), "must be a string")
			continue
		}
		list = append(list, s)
	}
	return list
}

func (r *reader) pairs(field string, v any) map[string]string {
	o, ok := v.(*object)
	if !ok {
		r.fail(field, "must be an object of strings")
		return nil
	}
	for _, key := range o.duplicates {
		r.fail(field+"."+key, "is there more than once")
	}
	pairs := make(map[string]string, len(o.keys))
	for _, key := range o.keys {
		s, ok := o.values[key].(string)
		if !ok {
			r.fail(field+"."+key, "must be a string")
			continue
		}
		pairs[key] = s
	}
	return pairs
}

func (r *reader) flag(field string, v any) bool {
	b, ok := v.(bool)
	if !ok {
		r.fail(field, "must be true or false")
	}
	return b
}

// number between the limits, both included.
func (r *reader) number(field string, v any, low, high float64) float64 {
	n, ok := v.(json.Number)
	if ok {
		f, err := n.Float64()
		if err == nil && f >= low && f <= high {
			return f
		}
	}
	r.fail(field, "must be a number from %g to %g", low, high)
	return low
}

func (r *reader) whole(field string, v any, low, high int64) int64 {
	f := r.number(field, v, float64(low), float64(high))
	if f != math.Trunc(f) {
		r.fail(field, "must be a whole number")
	}
	return int64(f)
}

// failed reports whether a mistake of the field was noted already.
func (r *reader) failed(field string) bool {
	for _, m := range r.mistakes {
		if strings.HasPrefix(m, field+":") {
			return true
		}
	}
	return false
}

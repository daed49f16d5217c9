package strictjson

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

// Reader takes values out of decoded JSON and collects every mistake.
type Reader struct {
	Mistakes Mistakes
	Warnings []string
}

// Fail notes a mistake of the field.
func (r *Reader) Fail(field, format string, args ...any) {
	r.Mistakes = append(r.Mistakes, field+": "+fmt.Sprintf(format, args...))
}

// Err is nil without mistakes, else all of them.
func (r *Reader) Err() error {
	if len(r.Mistakes) == 0 {
		return nil
	}
	return r.Mistakes
}

// Fields calls the reader of each key. An unknown key is a mistake: a typo in
// "readOnly" must not leave the default in force unnoticed.
func (r *Reader) Fields(o *Object, known map[string]func(field string, v any), advice func(key string) string) {
	for _, key := range o.Duplicates {
		r.Fail(key, "is there more than once")
	}
	for _, key := range o.Keys {
		if read := known[key]; read != nil {
			read(key, o.Values[key])
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
		r.Fail(strconv.Quote(key), "%s", text)
	}
}

// Text reads a string that is not empty.
func (r *Reader) Text(field string, v any) string {
	s, ok := v.(string)
	if !ok || s == "" {
		r.Fail(field, "must be a string that is not empty")
	}
	return s
}

// List reads an array of strings.
func (r *Reader) List(field string, v any) []string {
	raw, ok := v.([]any)
	if !ok {
		r.Fail(field, "must be an array of strings")
		return nil
	}
	list := make([]string, 0, len(raw))
	for i, item := range raw {
		s, ok := item.(string)
		if !ok {
			r.Fail(fmt.Sprintf("%s[%d]", field, i), "must be a string")
			continue
		}
		list = append(list, s)
	}
	return list
}

// Pairs reads an object of strings.
func (r *Reader) Pairs(field string, v any) map[string]string {
	o, ok := v.(*Object)
	if !ok {
		r.Fail(field, "must be an object of strings")
		return nil
	}
	for _, key := range o.Duplicates {
		r.Fail(field+"."+key, "is there more than once")
	}
	pairs := make(map[string]string, len(o.Keys))
	for _, key := range o.Keys {
		s, ok := o.Values[key].(string)
		if !ok {
			r.Fail(field+"."+key, "must be a string")
			continue
		}
		pairs[key] = s
	}
	return pairs
}

// Flag reads true or false.
func (r *Reader) Flag(field string, v any) bool {
	b, ok := v.(bool)
	if !ok {
		r.Fail(field, "must be true or false")
	}
	return b
}

// Number between the limits, both included.
func (r *Reader) Number(field string, v any, low, high float64) float64 {
	n, ok := v.(json.Number)
	if ok {
		f, err := n.Float64()
		if err == nil && f >= low && f <= high {
			return f
		}
	}
	r.Fail(field, "must be a number from %g to %g", low, high)
	return low
}

// Whole reads a whole number between the limits, both included.
func (r *Reader) Whole(field string, v any, low, high int64) int64 {
	f := r.Number(field, v, float64(low), float64(high))
	if f != math.Trunc(f) {
		r.Fail(field, "must be a whole number")
	}
	return int64(f)
}

// Failed reports whether a mistake of the field was noted already.
// Fail notes a mistake of the field.
func (r *Reader) Failed(field string) bool {
	for _, m := range r.Mistakes {
		if strings.HasPrefix(m, field+":") {
			return true
		}
	}
	return false
}

package audit

import (
	"encoding/json"
	"slices"
	"strings"
)

const masked = "[masked]"

// A masker replaces known secrets in strings. It finds a secret however JSON
// spells it, since it looks at decoded strings; it does not find one that was
// split or encoded (Base64, hex) by whoever sent it.
type masker []string

// newMasker drops what is too short to be a secret: it would mask words. The
// longest secrets come first, so that one that contains another goes whole.
func newMasker(secrets []string) masker {
	m := slices.DeleteFunc(slices.Clone(secrets), func(s string) bool { return len(s) < 8 })
	slices.SortFunc(m, func(a, b string) int { return len(b) - len(a) })
	return masker(m)
}

func (m masker) text(s string) string {
	for _, secret := range m {
		s = strings.ReplaceAll(s, secret, masked)
	}
	return s
}

// json masks every string of a canonical JSON text, the keys too.
func (m masker) json(canonical []byte) (json.RawMessage, error) {
	d := json.NewDecoder(strings.NewReader(string(canonical)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return json.Marshal(m.value(v))
}

func (m masker) value(v any) any {
	switch v := v.(type) {
	case string:
		return m.text(v)
	case []any:
		for i := range v {
			v[i] = m.value(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			out[m.text(name)] = m.value(member)
		}
		return out
	}
	return v
}

// record masks the strings that a client can choose.
func (m masker) record(r Record) Record {
	r.Request, r.Principal, r.Session = m.text(r.Request), m.text(r.Principal), m.text(r.Session)
	r.Server, r.Tool = m.text(r.Server), m.text(r.Tool)
	if len(r.Details) > 0 {
		details := make(map[string]string, len(r.Details))
		for name, value := range r.Details {
			details[name] = m.text(value)
		}
		r.Details = details
	}
	return r
}

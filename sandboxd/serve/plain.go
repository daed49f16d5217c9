package serve

import "bytes"

// plain takes back what encoding/json escapes by habit, so that <, > and & cost
// one byte each and not six: code is full of them. raw is valid JSON, in which a
// backslash stands in strings only.
func plain(raw []byte) []byte {
	if !bytes.Contains(raw, []byte(`\u00`)) {
		return raw
	}
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		switch {
		case raw[i] != '\\':
			out = append(out, raw[i])
		case bytes.HasPrefix(raw[i:], []byte(`\u003c`)):
			out, i = append(out, '<'), i+5
		case bytes.HasPrefix(raw[i:], []byte(`\u003e`)):
			out, i = append(out, '>'), i+5
		case bytes.HasPrefix(raw[i:], []byte(`\u0026`)):
			out, i = append(out, '&'), i+5
		default: // a backslash and what it escapes, perhaps another one
			out, i = append(out, raw[i], raw[i+1]), i+1
		}
	}
	return out
}

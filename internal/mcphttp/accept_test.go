package mcphttp

import "testing"

// Base64 that two decoders could read in two ways is refused.
func TestDecodeIsStrict(t *testing.T) {
	for value, want := range map[string]string{"plain": "plain", "=?base64?w7xidW5n?=": "übung", "=?base64??=": "", "=?base64?eA==": "=?base64?eA=="} {
		if got, ok := Decode(value); !ok || got != want {
			t.Errorf("%q: %q %v", value, got, ok)
		}
	}
	for _, value := range []string{"=?base64?eB==?=", "=?base64?eA?=", "=?base64?e\nA==?=", "=?base64?-_==?=", "=?base64? eA==?="} {
		if got, ok := Decode(value); ok {
			t.Errorf("%q is read as %q", value, got)
		}
	}
}

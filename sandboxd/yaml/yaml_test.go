package yaml_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/sandboxd/yaml"
)

type m = map[string]any

func TestParse(t *testing.T) {
	for text, want := range map[string]any{
		"":                          nil,
		"a: b":                      m{"a": "b"},
		"a:":                        m{"a": nil},
		"a: 1 # one":                m{"a": "1"},
		"a: 'b # c'":                m{"a": "b # c"},
		`"a": "b: c"`:               m{"a": "b: c"},
		"a:\n  b: c\n  d: e":        m{"a": m{"b": "c", "d": "e"}},
		"a:\n  - b\n  - c":          m{"a": []any{"b", "c"}},
		"a:\n- b\n- c":              m{"a": []any{"b", "c"}},
		"a:\n  - b: c\n    d: e":    m{"a": []any{m{"b": "c", "d": "e"}}},
		"a: [b, \"c, d\", 'e']":     m{"a": []any{"b", "c, d", "e"}},
		"a: []":                     m{"a": []any{}},
		"a: {b: c, d: [e]}":         m{"a": m{"b": "c", "d": []any{"e"}}},
		"a: {}":                     m{"a": m{}},
		"a: >-\n  b\n  c\nd: e":     m{"a": "b c", "d": "e"},
		"a: http://x:80/y":          m{"a": "http://x:80/y"},
		"# only\n\n  # a comment":   nil,
		"a: Host(`x`) && Path(`y`)": m{"a": "Host(`x`) && Path(`y`)"},
	} {
		got, err := yaml.Parse([]byte(text))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %#v, %v; want %#v", text, got, err, want)
		}
	}
}

func TestRefuses(t *testing.T) {
	for _, text := range []string{
		"a: &x b", "a: *x", "a: !!str b", "a:\n\tb: c", "---\na: b", "a: b\n---\nc: d", "a: b\na: c", "a: [b,\n  c]", "a: {b: c",
		"a: \"b\\n\"", "a: 'it''s'", "a: b\n  c: d", "- a\nb: c", "a:\n    b: c\n  d: e", "a: \"b\" c", "<<: {a: b}", "a: 'b", "just text", "a: @b", "? a\n: b",
	} {
		if got, err := yaml.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), "with certainty") {
			t.Errorf("%q: %#v, %v", text, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("a:\n  - b: [c, {d: 'e'}]\n# f\n"))
	f.Fuzz(func(_ *testing.T, raw []byte) { yaml.Parse(raw) }) // it must come back
}

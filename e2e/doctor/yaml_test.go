package doctor_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	reference "gopkg.in/yaml.v3"

	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/sandboxd/yaml"
)

// What sandboxd plan reads of YAML, a whole implementation reads alike.
func TestYAMLIsReadAlike(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(rig.Root(t), "traefik-dynamic.yml"))
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{string(raw)}
	for _, name := range []string{"docs/existing-traefik.md", "docs/funnel.md", "docs/clients/librechat.md"} {
		page, err := os.ReadFile(filepath.Join(rig.Root(t), name))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.Split(string(page), "```yaml\n")[1:] {
			block, _, _ := strings.Cut(part, "```")
			texts = append(texts, block)
		}
	}
	for _, text := range texts {
		if diff := alike(text); diff != "" {
			t.Errorf("%s in\n%s", diff, text)
		}
	}
	if len(texts) < 6 {
		t.Errorf("only %d texts", len(texts))
	}
}

// Where both accept a text, both understand the same. (What Traefik's own reader
// refuses never takes effect.)
func FuzzYAMLIsReadAlike(f *testing.F) {
	for _, seed := range []string{"a: b", "a:\n  - b: c\n    d: [e, 'f']\n", "a: {b: c}", "a: >-\n  b\n", "- a\n- b: c\n", "\"a\": ~"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, err := yaml.Parse([]byte(text))
		if err == nil && reference.Unmarshal([]byte(text), new(reference.Node)) == nil {
			if diff := alike(text); diff != "" {
				t.Error(diff)
			}
		}
	})
}

func alike(text string) string {
	got, err := yaml.Parse([]byte(text))
	if err != nil {
		return err.Error()
	}
	var node reference.Node
	if err := reference.Unmarshal([]byte(text), &node); err != nil {
		return "the reference refuses it: " + err.Error()
	}
	if want := plain(&node); !reflect.DeepEqual(got, want) {
		return fmt.Sprintf("%#v is not alike %#v", got, want)
	}
	return ""
}

// plain turns a node into what Parse returns.
func plain(n *reference.Node) any {
	switch n.Kind {
	case reference.DocumentNode:
		return plain(n.Content[0])
	case reference.MappingNode:
		m := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			m[n.Content[i].Value] = plain(n.Content[i+1])
		}
		return m
	case reference.SequenceNode:
		list := []any{}
		for _, c := range n.Content {
			list = append(list, plain(c))
		}
		return list
	case reference.ScalarNode:
		if n.Tag == "!!null" && n.Value == "" {
			return nil
		}
		if n.Style&(reference.FoldedStyle|reference.LiteralStyle) != 0 {
			return strings.Join(strings.Fields(n.Value), " ") // how lines are joined does not matter here
		}
		return n.Value
	}
	return nil
}

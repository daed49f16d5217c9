package strictjson_test

import (
	"encoding/json"
	"math/rand"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
	"github.com/sallyport-dev/sallyport/internal/strictjson"
	"github.com/sallyport-dev/sallyport/internal/strictjson/jsontest"
)

type params struct {
	Name      any              `json:"name"`
	Arguments map[string]any   `json:"arguments"`
	X         *json.RawMessage `json:"x"`
}

type request struct {
	JSONRPC string `json:"jsonrpc"`
	ID      int    `json:"id"`
	Method  string `json:"method"`
	More    any    `json:"more"`
	X       string `json:"x"`
	Params  params `json:"params"`
}

// readers are the strict readers, the depth each takes and the flaws that are
// none of its business. (What may stand in a message's values is the affair of
// who reads them, and whether its bytes are UTF-8 mcphttp's.)
var readers = []struct {
	name  string
	depth int
	read  func(raw []byte) error
	takes []jsontest.Flaw
}{
	{"Decode", 32, func(raw []byte) error {
		v, err := strictjson.Decode(raw)
		if err == nil {
			err = (&duplicates{}).of(v)
		}
		return err
	}, []jsontest.Flaw{jsontest.Case}},
	{"Into", 32, func(raw []byte) error { return strictjson.Into(raw, &request{}) }, nil},
	{"Canonical", 500, func(raw []byte) error { _, err := audit.Canonical(raw); return err },
		[]jsontest.Flaw{jsontest.Case}},
	{"jsonrpc", 10000, func(raw []byte) error { _, err := jsonrpc.Parse(raw); return err },
		[]jsontest.Flaw{jsontest.Encoding, jsontest.Surrogate}},
}

// duplicates makes an error of what Decode leaves to its caller.
type duplicates struct{}

func (d *duplicates) of(v any) error {
	switch v := v.(type) {
	case *strictjson.Object:
		if len(v.Duplicates) > 0 {
			return &strictjson.TwiceError{Key: v.Duplicates[0]}
		}
		for _, inner := range v.Values {
			if err := d.of(inner); err != nil {
				return err
			}
		}
	case []any:
		for _, inner := range v {
			if err := d.of(inner); err != nil {
				return err
			}
		}
	}
	return nil
}

// Every strict reader refuses each flaw and each depth beyond its own, and
// accepts the same text without it (the twin).
func TestReadersAgree(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range 100 {
		for _, flaw := range jsontest.Flaws {
			for _, levels := range []int{0, 3, 29, 30, 400, 497, 498} {
				text := jsontest.New(r, flaw, levels)
				if json.Valid([]byte(text.Raw)) == (flaw == jsontest.Syntax || flaw == jsontest.Trailing) {
					t.Fatalf("%q is no good example of %q", text.Raw, flaw)
				}
				for _, reader := range readers {
					takes := flaw == jsontest.None
					for _, other := range reader.takes {
						takes = takes || flaw == other
					}
					takes = takes && text.Levels <= reader.depth
					if err := reader.read([]byte(text.Raw)); (err == nil) != takes {
						t.Fatalf("%s: %q with %q, %d levels: %v", reader.name, text.Raw, flaw, text.Levels, err)
					}
				}
			}
		}
	}
}

// FuzzCursor holds the one reader of members to encoding/json: what it accepts
// has the same keys and values, and Canonical keeps its meaning.
func FuzzCursor(f *testing.F) {
	r := rand.New(rand.NewSource(2))
	for _, flaw := range jsontest.Flaws {
		f.Add([]byte(jsontest.New(r, flaw, 3).Raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := strictjson.Open(raw)
		if err != nil {
			return
		}
		if c.Kind() == '{' {
			got := map[string]json.RawMessage{}
			if c.Object(func(key string) error { got[key] = c.Raw(); return nil }) == nil {
				same(t, raw, got)
			}
		}
		canonical, err := audit.Canonical(raw)
		if err != nil {
			return
		}
		again, err := audit.Canonical(canonical)
		if err != nil || string(again) != string(canonical) {
			t.Fatalf("%q: canonical %q, again %q, %v", raw, canonical, again, err)
		}
	})
}

func same(t *testing.T, raw []byte, got map[string]json.RawMessage) {
	t.Helper()
	var want map[string]json.RawMessage
	if err := json.Unmarshal(raw, &want); err != nil || len(want) != len(got) {
		t.Fatalf("%q: %d members, encoding/json has %d, %v", raw, len(got), len(want), err)
	}
	for key, value := range want {
		if string(got[key]) != string(value) {
			t.Fatalf("%q: %q is %q, encoding/json has %q", raw, key, got[key], value)
		}
	}
}

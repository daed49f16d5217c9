package tool

import (
	"strings"
	"testing"
)

type allIn struct {
	Path  string `json:"path"`
	Count *int   `json:"count"`
	All   bool   `json:"all"`
}

var allProps = []property{need("path", "string", "a file"), may("count", "integer", "how many"), may("all", "boolean", "all of them")}

// What models send is understood, or refused with an error that names the argument.
func TestArguments(t *testing.T) {
	n := func(v int) *int { return &v }
	for raw, want := range map[string]allIn{
		`{"path":"a"}`:                         {Path: "a"},
		`{"path":"a","count":null,"all":null}`: {Path: "a"},
		`{"path":"a","count":90}`:              {Path: "a", Count: n(90)},
		`{"path":"a","count":90.0}`:            {Path: "a", Count: n(90)},
		`{"path":"a","count":9e1}`:             {Path: "a", Count: n(90)},
		`{"path":"a","count":"90"}`:            {Path: "a", Count: n(90)},
		`{"path":"a","count":-1}`:              {Path: "a", Count: n(-1)},
		`{"path":"a","all":"true"}`:            {Path: "a", All: true},
		`{"path":"a","all":false}`:             {Path: "a"},
		`"{\"path\":\"a\",\"count\":3}"`:       {Path: "a", Count: n(3)},
		` {"path":"\ufffd\ud83d\ude00 <&>"} `:  {Path: "\ufffd\U0001f600 <&>"},
		`{"path":"` + "\ufffd" + `"}`:          {Path: "\ufffd"},
		`{"path":"","count":9007199254740992}`: {Count: n(1 << 53)},
		`{"\u0070ath":"a"}`:                    {Path: "a"},
	} {
		var got allIn
		if err := read([]byte(raw), allProps, &got); err != nil || got.Path != want.Path || got.All != want.All ||
			(got.Count == nil) != (want.Count == nil) || got.Count != nil && *got.Count != *want.Count {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
	}
	for raw, words := range map[string]string{
		``:                                  `"path" is missing: a file`,
		`null`:                              `"path" is missing`,
		`{"path":null}`:                     `"path" is missing`,
		`{"path":7}`:                        `path must be text in quotes, not 7`,
		`{"path":["a"]}`:                    `path must be text`,
		`{"path":"a","path":"b"}`:           `"path" is there twice`,
		`{"path":"a","\u0070ath":"b"}`:      `"path" is there twice`,
		`"{\"path\":\"a\",\"path\":\"b\"}"`: `"path" is there twice`,
		`{"path":"a","count":1.5}`:          `count must be a whole number`,
		`{"path":"a","count":"many"}`:       `count must be a whole number such as 10, not "many"`,
		`{"path":"a","count":1e300}`:        `count must be a whole number`,
		`{"path":"a","count":99999999999999999999}`: `count must be a whole number`,
		`{"path":"a","count":true}`:                 `count must be a whole number`,
		`{"path":"a","count":"NaN"}`:                `count must be a whole number`,
		`{"path":"a","count":"0x10"}`:               `count must be a whole number`,
		`{"path":"a","all":1}`:                      `all must be true or false, not 1`,
		`{"path":"a","Path":"b"}`:                   `it is written "path"`,
		`{"path":"a","file":"b"}`:                   `there is no argument "file": the arguments are path, count, all`,
		`{"path":"\ud800"}`:                         `half of a surrogate pair`,
		`[]`:                                        `must be a JSON object`,
		`"ls"`:                                      `must be a JSON object`,
		`"{} {}"`:                                   `must be a JSON object`,
		`17`:                                        `must be a JSON object`,
	} {
		var got allIn
		err := read([]byte(raw), allProps, &got)
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, want %q", raw, err, words)
			continue
		}
		for _, inner := range []string{"reflect", "Go struct", "json:", "unmarshal"} {
			if strings.Contains(err.Error(), inner) {
				t.Errorf("%s: %v is not a model's words", raw, err)
			}
		}
	}
}

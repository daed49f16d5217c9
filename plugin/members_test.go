package plugin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand"
	"strings"
	"testing"
)

// depthOf is the depth of valid JSON, token by token.
func depthOf(raw []byte) int {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	depth := 0
	most := 0
	for {
		t, err := dec.Token()
		if err != nil {
			return most
		}
		if d, ok := t.(json.Delim); ok {
			if d == '{' || d == '[' {
				depth++
			} else {
				depth--
			}
			if depth > most {
				most = depth
			}
		}
	}
}

// checkPairs holds each short way of reading to the long one, on any bytes.
func checkPairs(t *testing.T, body []byte) {
	t.Helper()
	a, wrongA := members(body)
	b, wrongB := walkMembers(body)
	few := wrongB != manyKeys
	if few && (wrongA == "") != (wrongB == "") {
		t.Fatalf("%q: counted it is %q, walked %q", body, wrongA, wrongB)
	}
	for key := range a {
		if few && wrongA == "" && string(compacted(a[key])) != string(compacted(b[key])) {
			t.Fatalf("%q: %s is %s, walked %s", body, key, a[key], b[key])
		}
	}
	if !json.Valid(body) {
		return
	}
	most := depthOf(body)
	for _, depth := range []int{1, 2, 5, maxDepth} {
		if got := tooDeep(body, depth) == ""; got != (most <= depth) {
			t.Fatalf("%q has %d levels; within %d: %v", body, most, depth, got)
		}
	}
}

func compacted(raw []byte) []byte {
	var b bytes.Buffer
	_ = json.Compact(&b, raw)
	return b.Bytes()
}

// randomJSON writes any value: brackets in strings, escapes, white space.
func randomJSON(r *rand.Rand, depth int) string {
	texts := []string{`""`, `"a"`, `"[{"`, `"]}"`, `"\\"`, `"\""`, `"\\\""`, `"[\"]"`, `"\u005b"`, "1", "-1.5e3", "true", "null", `"é\"["`}
	if depth == 0 || r.Intn(3) == 0 {
		return texts[r.Intn(len(texts))]
	}
	space := []string{"", " ", "\n\t"}[r.Intn(3)]
	var parts []string
	object := r.Intn(2) == 0
	for i := r.Intn(4); i > 0; i-- {
		value := randomJSON(r, depth-1)
		if object {
			value = fmt.Sprintf(`"k%d"%s:%s`, i, space, value)
		}
		parts = append(parts, value)
	}
	if object {
		return "{" + space + strings.Join(parts, ","+space) + "}"
	}
	return "[" + strings.Join(parts, space+",") + space + "]"
}

func TestShortWaysOfReadingAgree(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for i := 0; i < 2000; i++ {
		checkPairs(t, []byte(randomJSON(r, 7)))
	}
	for _, body := range []string{"", "{", "{}", "{} x", `{"a":1,"a":2}`, `{"a":1 , "A":2}`, `{"\u0061":1}`, `{"Method":1}`, `{"meſhod":1}`, `{"\u212a":1}`,
		`{"a":[}`, `{"a":1}}`, `{"a" 1}`, `{"a":1,}`, `{,}`, "{\"a\":\"\xff\"}", "[]", "null", ` { "a" : 1 } `, `{"name":1,"NAME":2}`, `{"a\"b":1}`} {
		checkPairs(t, []byte(body))
	}
}

// Depth counts depth: a long flat call passes, whatever it is made of.
func TestDepthCountsDepth(t *testing.T) {
	row := `{"id":1,"name":"a","tags":["x","y"]},`
	for desc, arguments := range map[string]string{
		"rows":    `{"rows":[` + strings.TrimSuffix(strings.Repeat(row, 40000), ",") + `]}`,
		"numbers": `{"n":[` + strings.Repeat("0,", 400000) + `0]}`,
		"strings": `{"s":[` + strings.Repeat(`"[[{{",`, 100000) + `""]}`,
	} {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":` + arguments + `}}`
		if m, bad := parseMessage([]byte(body)); bad != nil || m.tool != "read_file" {
			t.Errorf("%s: %+v", desc, bad)
		}
		if !fastCall(&call{}, []byte(body)) {
			t.Errorf("%s: not read as a plain call", desc)
		}
		deep := strings.Replace(body, arguments, `{"a":`+arguments+`,"b":`+strings.Repeat("[", maxDepth)+strings.Repeat("]", maxDepth)+"}", 1)
		if _, bad := parseMessage([]byte(deep)); bad == nil || !strings.Contains(bad.text, "deeply") {
			t.Errorf("%s beside too many levels: %+v", desc, bad)
		}
	}
}

// An object that the policy looks into has few members; its values have any number.
func TestMembersAreBounded(t *testing.T) {
	body := func(n int) string {
		var keys []string
		for i := 0; i < n; i++ {
			keys = append(keys, fmt.Sprintf(`"k%d":{"a":1,"b":[1,"x"]}`, i))
		}
		return called("ping", "{"+strings.Join(keys, ",")+"}")
	}
	if _, bad := parseMessage([]byte(body(maxMembers))); bad != nil {
		t.Errorf("%d members: %+v", maxMembers, bad)
	}
	for _, n := range []int{maxMembers + 1, 200000} {
		if _, bad := parseMessage([]byte(body(n))); bad == nil || !strings.Contains(bad.text, "256 members") {
			t.Errorf("%d members: %+v", n, bad)
		}
	}
}

// Whatever stands before it, a subscription to resources is seen.
func TestResourcesAreSeen(t *testing.T) {
	for params, want := range map[string]bool{
		`{"notifications":{"toolsListChanged":true}}`:                                                                 false,
		`{"a":[` + strings.Repeat("0,", 200010) + `0],"notifications":{"resourceSubscriptions":["file:///a"]}}`:       true,
		`{"a":[` + strings.Repeat("0,", 200010) + `0]}`:                                                               false,
		`{"notifications":{"\u0072esourceSubscriptions":[]}}`:                                                         true,
		`{"notifications":{"re\u017fourceſubscriptionS":[]}}`:                                                         true,
		`{"_meta":{"client":"a \"b\""},"notifications":{"toolsListChanged":true}}`:                                    false,
		`{"a":"\n",` + `"b":[` + strings.Repeat("0,", 20000) + `0],"notifications":{"\u0072esourceSubscriptions":1}}`: true,
	} {
		m, bad := parseMessage([]byte(called("subscriptions/listen", params)))
		if bad == nil && m.resources != want {
			t.Errorf("%.60s: resources %v, want %v", params, m.resources, want)
		}
		if bad != nil && !want {
			t.Errorf("%.60s: %+v", params, bad)
		}
	}
}

package plugin

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// The references below are other ways to read the same input, as simple as they
// can be: what the plugin lets through must look the same to all of them.

// pair is one member of an object, in its order.
type pair struct {
	key   string
	value json.RawMessage
}

// pairs reads an object without losing duplicates.
func pairs(raw []byte) []pair {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	var all []pair
	for dec.More() {
		t, err := dec.Token()
		key, ok := t.(string)
		var p pair
		if err != nil || !ok || dec.Decode(&p.value) != nil {
			return nil
		}
		p.key = key
		all = append(all, p)
	}
	return all
}

// view is how one kind of parser finds a member.
type view func(object []pair, key string) json.RawMessage

func firstWins(object []pair, key string) json.RawMessage {
	for i := range object {
		if object[i].key == key {
			return object[i].value
		}
	}
	return nil
}

func lastWins(object []pair, key string) json.RawMessage {
	var found json.RawMessage
	for i := range object {
		if object[i].key == key {
			found = object[i].value
		}
	}
	return found
}

func anyCase(object []pair, key string) json.RawMessage {
	var found json.RawMessage
	for i := range object {
		if strings.EqualFold(object[i].key, key) {
			found = object[i].value
		}
	}
	return found
}

func asText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// sameMessage is about what policy and refusals use.
func sameMessage(a, b *message) bool {
	return string(a.id) == string(b.id) && a.method == b.method && a.tool == b.tool &&
		a.version == b.version && a.resources == b.resources
}

// FuzzBody: an accepted body says the same to every parser.
func FuzzBody(f *testing.F) {
	paths, err := filepath.Glob(filepath.Join("..", "testdata", "jsonrpc", "*.txt"))
	if err != nil || len(paths) == 0 {
		f.Fatal(err, paths)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		_, payload, _ := strings.Cut(string(data), "\n\n")
		if len(payload) < 64<<10 { // the readings below are slow
			f.Add([]byte(payload))
		}
	}
	for _, id := range []string{`1`, `0`, `007`, `"a-1"`, `-1`} { // of calls as the SDKs write them
		f.Add([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"a.b","arguments":{"x":[{}]}}}`))
		f.Add([]byte(`{"method":"tools/call","params":{"name":"a.b","arguments":{"x":"},"}},"jsonrpc":"2.0","id":` + id + `}`))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, bad := parseMessage(body)
		c := &call{}
		if fastCall(c, body) && (bad != nil || !sameMessage(c.message, m)) {
			t.Fatalf("read as a plain call %+v, else %+v (%v)", c.message, m, bad)
		}
		checkPairs(t, body)
		if bad != nil {
			return
		}
		if !json.Valid(body) || !utf8.Valid(body) {
			t.Fatal("accepted, but not JSON")
		}
		top := pairs(body)
		for _, find := range []view{firstWins, lastWins, anyCase} {
			params := pairs(find(top, "params"))
			if got := asText(find(top, "method")); got != m.method {
				t.Fatalf("a parser reads method %q, the policy %q", got, m.method)
			}
			if got := asText(find(params, "name")); m.method == "tools/call" && got != m.tool {
				t.Fatalf("a parser reads tool %q, the policy %q", got, m.tool)
			}
			if got := find(top, "id"); string(got) != string(m.id) {
				t.Fatalf("a parser reads id %s, the policy %s", got, m.id)
			}
			if got := asText(find(pairs(find(params, "_meta")), versionKey)); got != m.version {
				t.Fatalf("a parser reads version %q, the policy %q", got, m.version)
			}
		}
		// Written again by another encoder it is accepted as the same, unless that
		// escapes keys, as Go's does with & in a page.
		var value map[string]json.RawMessage
		if json.Unmarshal(body, &value) != nil {
			t.Fatal("accepted, but no object")
		}
		if n, bad := parseMessage(encode(value)); bad != nil || n.method != m.method || n.tool != m.tool {
			t.Fatalf("written again: %v, %+v", bad, n)
		}
	})
}

// FuzzEndpoint: whatever the stream and its cuts, every endpoint that any client
// dispatches is on its own origin and inside the prefix, and a stream without
// that word has not changed.
func FuzzEndpoint(f *testing.F) {
	for i := range eventStreams {
		f.Add(eventStreams[i].in, byte(1), byte(3))
	}
	for _, ref := range []string{"//evil.example/", `/\evil.example`, "http://node.example@evil.example", "../../x", "/%2e%2e/x", "/a/..;/b", "http:x", "\x01//evil.example"} {
		f.Add("event: endpoint\ndata: "+ref+"\n\n", byte(7), byte(2))
	}
	for _, end := range []string{"\r", "\v", "\f", "\x1c", "\u0085", "\u2028", "\u2029", "\x85", "Å", "\u4e05"} {
		f.Add("event: "+end+"endpoint\ndata: /other/steal\n\n", byte(7), byte(2))
		f.Add("data: x"+end+"event: endpoint"+end+"data: //evil.example"+end+end+"\n\n", byte(7), byte(2))
	}
	f.Fuzz(func(t *testing.T, stream string, a, b byte) {
		s := newScanner()
		s.limit = 100 // so that long events are met
		var got strings.Builder
		stopped := ""
		for rest, i := stream, 0; rest != "" && stopped == ""; i++ {
			n := int(a)%64 + 1
			if i%2 == 1 {
				n = int(b)%64 + 1
			}
			if n > len(rest) {
				n = len(rest)
			}
			passed, why := feed(s, []byte(rest[:n]))
			got.Write(passed)
			stopped = why
			rest = rest[n:]
		}
		if stopped == "" {
			var passed []byte
			passed, stopped = finishScan(s)
			got.Write(passed)
		}
		for name, events := range clientViews(got.String()) {
			for i := range events {
				if events[i].kind == "endpoint" {
					checkEndpoint(t, name, events[i].data)
				}
			}
		}
		if stopped == "" && got.String() != stream && !strings.Contains(stream, "endpoint") && escapeLineEnds.Replace(stream) == stream && !strings.Contains(stream, "\r") && len(stream) < 100 {
			t.Fatalf("a stream without an endpoint changed to %q", got.String())
		}
	})
}

// checkEndpoint resolves as clients do.
func checkEndpoint(t *testing.T, name, ref string) {
	t.Helper()
	base, _ := url.Parse("http://node.example/foo/sse")
	u, err := base.Parse(strings.TrimSpace(ref))
	if err != nil {
		// Browsers take a bad escape as it stands; Go does not.
		if !strings.HasPrefix(ref, "/foo/") || strings.ContainsAny(ref, "\\\t") {
			t.Fatalf("%s: %q: %v", name, ref, err)
		}
		return
	}
	if u.Host != "node.example" || u.Scheme != "http" || u.User != nil || (u.Path != "/foo" && !strings.HasPrefix(u.Path, "/foo/")) {
		t.Fatalf("%s: %q is %s", name, ref, u)
	}
	path, _, _ := strings.Cut(ref, "?")
	path = strings.NewReplacer("%2e", ".", "%2E", ".").Replace(path)
	if strings.Contains(path+"/", "/../") || strings.Contains(path+"/", "/./") || strings.ContainsAny(path, "\\\t\n\r") || strings.HasPrefix(path, "//") {
		t.Fatalf("%q can be read in two ways", ref)
	}
}

// Blanks around a value are none of it (RFC 9110, section 5.5).
var bearerForm = regexp.MustCompile(`^[ \t]*[Bb][Ee][Aa][Rr][Ee][Rr] +([^ \t,]+)[ \t]*$`)

// FuzzAuthorization: one header, one token, one JWT, or none.
func FuzzAuthorization(f *testing.F) {
	header := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","kid":"e"}`))
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"x"}`))
	for _, s := range []string{"Bearer " + clientToken, "bearer  x", "Bearer x y", "Bearer\tx", "Basic x", "Bearer a,b", "", "Bearer ",
		"Bearer " + header + "." + claims + ".AAAA", "Bearer " + header + "." + claims + ".AAAB\n", "Bearer ..", "Bearer a.b.c.d", "\tBearer x ", "Bearer\t x"} {
		f.Add(s)
	}
	known := newKnown()
	f.Fuzz(func(t *testing.T, value string) {
		want := ""
		if m := bearerForm.FindStringSubmatch(value); m != nil && len(value) <= 16<<10 {
			want = m[1]
		}
		got := bearerToken([]string{value})
		if got != want {
			t.Fatalf("%q: token %q, want %q", value, got, want)
		}
		if bearerToken([]string{value, value}) != "" || bearerToken(nil) != "" {
			t.Fatal("two headers, or none, give a token")
		}
		if i := match(known, got); (i >= 0) != (got == clientToken || got == otherToken) {
			t.Fatalf("%q matches %d", got, i)
		}
		j, wrong := parseJWT(got)
		if wrong != "" || jsonPart(j.payload) == nil {
			return
		}
		var head map[string]interface{} // not a struct, which would take kiD for kid: RFC 7515, section 4, does not
		parts := strings.Split(got, ".")
		for i := range parts {
			raw, err := base64.RawURLEncoding.DecodeString(parts[i])
			if err != nil || base64.RawURLEncoding.EncodeToString(raw) != parts[i] {
				t.Fatalf("part %d is not canonical", i)
			}
			if i == 0 && json.Unmarshal(raw, &head) != nil {
				t.Fatal("the header is not JSON")
			}
			if i == 1 && !json.Valid(raw) {
				t.Fatal("the claims are not JSON")
			}
		}
		alg, _ := head["alg"].(string)
		kid, _ := head["kid"].(string)
		if alg != j.alg || kid != j.kid || algorithms[j.alg] == nil {
			t.Fatalf("another parser reads %v, this one %s and %s", head, j.alg, j.kid)
		}
	})
}

func newKnown() [][]byte {
	var sums [][]byte
	for _, text := range []string{clientToken, otherToken} {
		sum, _, _ := (&secret{text: text}).read()
		sums = append(sums, sum)
	}
	return sums
}

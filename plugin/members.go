package plugin

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Bounds of what is read of one JSON text. Interpreted code runs for each member
// of an object that the policy looks into, so those are few; all else is left to
// compiled code, and counted in the unit of its limit.
const (
	maxDepth    = 128     // levels: what any backend's parser can recurse
	maxMembers  = 256     // of an object that the policy looks into
	maxBrackets = 2 << 20 // whose levels are counted, and quotes of strings that hold some
)

// exactKeys are the names that a policy or a backend decides on. Some parsers
// take other cases of them for the same, so those are refused.
var exactKeys = map[string]bool{"jsonrpc": true, "id": true, "method": true, "params": true, "result": true,
	"error": true, "name": true, "arguments": true, "uri": true, "taskId": true, "_meta": true, versionKey: true}

// folded are exactKeys as the loosest parsers read them.
var folded = foldedKeys()

func foldedKeys() map[string]bool {
	keys := map[string]bool{}
	for name := range exactKeys {
		keys[fold(name)] = true
	}
	return keys
}

// fold maps to one case as the loosest parsers do: K and ſ are k and s.
func fold(key string) string { return strings.ToLower(strings.ToUpper(key)) }

var (
	leftBrace   = []byte("{")
	leftBracket = []byte("[")
	colon       = []byte(":")
)

const (
	otherCase  = "a key is written in another case than its name"
	notObject  = "not one JSON object in UTF-8"
	twiceInOne = "a key is there twice, or has an escape"
	manyKeys   = "an object has more than 256 members"
)

// members returns the members of one object, or why it is refused. Decoding
// hides duplicate keys, but not from a count of the bytes: in an object without
// white space each member takes its key, its value, two quotes, a colon and a
// comma. An escape in a key does not fit in either, and no client writes one.
func members(raw []byte) (map[string]json.RawMessage, string) {
	if bytes.Count(raw, colon) > maxMembers {
		return walkMembers(raw)
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil || m == nil || !utf8.Valid(raw) {
		return nil, notObject
	}
	size := 1
	for key, value := range m {
		size += len(key) + len(value) + 4
		if !exactKeys[key] && folded[fold(key)] {
			return nil, otherCase
		}
	}
	if size == len(raw) || len(m) == 0 {
		return m, ""
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil || compact.Len() == len(raw) {
		return nil, twiceInOne
	}
	return members(compact.Bytes())
}

// walkMembers is members for what may have more than a few: it stops where there
// are too many, and copies no value.
func walkMembers(raw []byte) (map[string]json.RawMessage, string) {
	if !utf8.Valid(raw) {
		return nil, notObject
	}
	m := map[string]json.RawMessage{}
	dec := json.NewDecoder(bytes.NewReader(raw))
	open, err := dec.Token()
	if d, ok := open.(json.Delim); err != nil || !ok || d != '{' {
		return nil, notObject
	}
	var value skipped
	for dec.More() {
		t, err := dec.Token()
		key, ok := t.(string)
		if err != nil || !ok {
			return nil, notObject
		}
		at := dec.InputOffset()
		switch {
		case len(m) == maxMembers:
			return nil, manyKeys
		case m[key] != nil || !bytes.HasSuffix(raw[:at], []byte(`"`+key+`"`)):
			return nil, twiceInOne
		case !exactKeys[key] && folded[fold(key)]:
			return nil, otherCase
		}
		err = dec.Decode(&value)
		if _, other := err.(*json.UnmarshalTypeError); err != nil && !other {
			return nil, notObject
		}
		m[key] = bytes.TrimLeft(raw[at:dec.InputOffset()], ": \t\r\n")
	}
	if _, err := dec.Token(); err != nil || len(bytes.TrimLeft(raw[dec.InputOffset():], " \t\r\n")) > 0 {
		return nil, notObject
	}
	return m, ""
}

// skipped takes true and false, and nothing of the rest: an array or object is
// passed over by compiled code without a look at its keys.
type skipped bool

// Symbols of a JSON text, chosen for base64: their low bits are zero.
const (
	opens  = "A"
	closes = "Q"
	quote  = "g"
	filler = "w"
)

var (
	toSymbols     = strings.NewReplacer(symbolsOnly()...)
	quotedSymbols = regexp.MustCompile(quote + "[^" + quote + "]*" + quote)
)

// symbolsOnly maps every byte but brackets and quotes to a line end.
func symbolsOnly() []string {
	symbols := map[string]string{"[": opens, "{": opens, "]": closes, "}": closes, `"`: quote}
	var pairs []string
	for i := 0; i < 256; i++ {
		b := string([]byte{byte(i)})
		to := symbols[b]
		if to == "" {
			to = "\n"
		}
		pairs = append(pairs, b, to)
	}
	return pairs
}

// onlySymbols leaves brackets and quotes of a text. What drops all else fastest,
// of compiled code, is a decoder of base64, which skips line ends: then the
// symbols are written again.
func onlySymbols(s string) string {
	b := []byte(toSymbols.Replace(s) + filler + filler + filler)
	n, _ := base64.RawStdEncoding.Decode(b, b) // an error is about the last filler
	return strings.TrimRight(base64.RawStdEncoding.EncodeToString(b[:n]), filler)
}

// tooDeep says why valid JSON is nested too deeply, for depth levels. It takes
// away what has no level, then the innermost pairs of brackets, level by level.
func tooDeep(raw []byte, depth int) string {
	if bytes.Count(raw, leftBrace)+bytes.Count(raw, leftBracket) <= depth {
		return ""
	}
	s := string(raw)
	if strings.Contains(s, `\`) {
		s = strings.ReplaceAll(strings.ReplaceAll(s, `\\`, ""), `\"`, "")
	}
	// Two quotes side by side go first: whether they are one empty string or the end
	// of one and the start of the next, what remains is inside or outside as before.
	s = strings.ReplaceAll(onlySymbols(s), quote+quote, "")
	if len(s) > maxBrackets {
		return "the body has more than 2097152 brackets, those in strings too"
	}
	if strings.Contains(s, quote) {
		s = quotedSymbols.ReplaceAllString(s, "")
	}
	for i := 0; i < depth && s != ""; i++ {
		s = strings.ReplaceAll(s, opens+closes, "")
	}
	if s != "" {
		return "the body is nested too deeply"
	}
	return ""
}

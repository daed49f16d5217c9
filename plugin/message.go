package plugin

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"unicode/utf8"
)

// message is what the policy knows of a JSON-RPC message.
type message struct {
	id        json.RawMessage // nil: a notification
	method    string          // "" for a response
	tool      string          // params.name of tools/call
	name      string          // what Mcp-Name mirrors: params.name, uri or taskId
	hasName   bool
	version   string // params._meta's protocol version
	resources bool   // subscriptions/listen asks for resources
}

// badMessage is why a body is refused.
type badMessage struct {
	code int
	text string
}

// Bounds of a message. Its depth is what any backend's parser can recurse; the
// number of values bounds the time that the check of the depth takes.
const (
	maxDepth  = 128
	maxValues = 200000
)

// versionKey is where a message of revision 2026-07-28 has its version.
const versionKey = "io.modelcontextprotocol/protocolVersion"

// exactKeys are the names that a policy or a backend decides on. Some parsers
// take other cases of them for the same, so those are refused. The values are
// the folded names.
var exactKeys = map[string]string{
	"jsonrpc": "jsonrpc", "id": "id", "method": "method", "params": "params", "result": "result", "error": "error",
	"name": "name", "arguments": "arguments", "uri": "uri", "_meta": "_meta", "taskId": "taskid",
	versionKey: strings.ToLower(versionKey),
}

var foldedKeys = map[string]bool{"jsonrpc": true, "id": true, "method": true, "params": true, "result": true, "error": true,
	"name": true, "arguments": true, "uri": true, "_meta": true, "taskid": true, strings.ToLower(versionKey): true}

// parseMessage reads one JSON-RPC 2.0 message strictly. Parsers disagree on
// duplicate keys, other cases, trailing data, batches and bad UTF-8; a body on
// which they could disagree is refused rather than repaired.
func parseMessage(body []byte) (message, *badMessage) {
	m := message{}
	if bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("[")) {
		return m, &badMessage{codeInvalidRequest, "batches are not served: send one message"}
	}
	if !utf8.Valid(body) {
		return m, &badMessage{codeParse, "the body is not UTF-8"}
	}
	top, wrong := members(body)
	if wrong != "" {
		return m, &badMessage{codeParse, wrong}
	}
	if id := top["id"]; id != nil {
		if id[0] != '"' && id[0] != '-' && (id[0] < '0' || id[0] > '9') {
			return m, &badMessage{codeInvalidRequest, "id must be a string or a number"}
		}
		m.id = id
	}
	wrong = envelope(&m, top)
	// Only with so many brackets can it be too deep, and the walk is slow.
	if wrong == "" && bytes.Count(body, []byte("{"))+bytes.Count(body, []byte("[")) > maxDepth {
		if deep, _ := survey(body, ""); deep {
			wrong = "the body is nested too deeply"
		}
	}
	if wrong == "" && m.method != "" {
		wrong = readParams(&m, top["params"])
	}
	if wrong != "" {
		return m, &badMessage{codeInvalidRequest, wrong}
	}
	return m, nil
}

// envelope checks the members of JSON-RPC and returns what is wrong.
func envelope(m *message, top map[string]json.RawMessage) string {
	size := len(top)
	for _, name := range []string{"jsonrpc", "id", "method", "params", "result", "error"} {
		if top[name] != nil {
			size--
		}
	}
	answers := top["result"] != nil != (top["error"] != nil)
	var named bool
	m.method, named = text(top["method"])
	switch {
	case size > 0:
		return "a JSON-RPC message has jsonrpc, id, method, params, result and error only"
	case string(top["jsonrpc"]) != `"2.0"`:
		return `jsonrpc must be "2.0"`
	case top["method"] == nil && (!answers || m.id == nil):
		return "the message is neither a request nor a response"
	case top["method"] != nil && (!named || m.method == "" || top["result"] != nil || top["error"] != nil):
		return "method must be a string, without result and error beside it"
	}
	return ""
}

// readParams reads what policy needs and returns what is wrong.
func readParams(m *message, params json.RawMessage) string {
	calls := m.method == "tools/call"
	if params == nil || string(params) == "null" {
		if calls {
			return "tools/call needs params.name"
		}
		return ""
	}
	fields, wrong := members(params)
	if wrong != "" {
		return "params: " + wrong
	}
	for _, name := range []string{"taskId", "uri", "name"} { // the last one counts
		if raw := fields[name]; raw != nil {
			m.name, m.hasName = text(raw)
		}
	}
	if calls {
		m.tool, _ = text(fields["name"])
		if m.tool == "" {
			return "tools/call needs params.name"
		}
	}
	if m.method == "subscriptions/listen" {
		_, m.resources = survey(params, "resourcesubscriptions")
	}
	// Escapes could hide the key, so a backslash is looked into as well.
	if meta := fields["_meta"]; meta != nil && (bytes.Contains(meta, []byte("rotocol")) || bytes.IndexByte(meta, '\\') >= 0) {
		inner, wrong := members(meta)
		if wrong != "" {
			return "params._meta: " + wrong
		}
		m.version, _ = text(inner[versionKey])
	}
	return ""
}

// members returns the members of one object, or why it is refused. It walks one
// level with Token, which reads a duplicate that Unmarshal would hide.
func members(raw []byte) (map[string]json.RawMessage, string) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, "not a JSON object"
	}
	out := map[string]json.RawMessage{}
	folded := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		key, isString := t.(string)
		if err != nil || !isString {
			return nil, "not a JSON object"
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, "not a JSON object"
		}
		f, exact := exactKeys[key]
		if !exact {
			f = fold(key)
			if foldedKeys[f] {
				return nil, "a key is written in another case than its name"
			}
		}
		if folded[f] {
			return nil, "a key is there twice"
		}
		folded[f] = true
		out[key] = value
	}
	if t, err := dec.Token(); err != nil || t != json.Delim('}') {
		return nil, "not a JSON object"
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, "there is data behind the JSON object"
	}
	return out, ""
}

// text decodes a JSON string.
func text(raw json.RawMessage) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), true
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err == nil
}

// survey walks all tokens of valid JSON: is it too deep, and does a string or key
// fold to word?
func survey(raw []byte, word string) (bool, bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	depth := 0
	found := false
	for n := 0; ; n++ {
		t, err := dec.Token()
		if err != nil {
			return false, found
		}
		switch v := t.(type) {
		case json.Delim:
			if v == '{' || v == '[' {
				depth++
			} else {
				depth--
			}
		case string:
			found = found || fold(v) == word
		}
		if depth > maxDepth || n > maxValues {
			return true, found
		}
	}
}

// fold folds as the loosest parsers do: K and ſ become k and s.
func fold(s string) string { return strings.ToLower(strings.ToUpper(s)) }

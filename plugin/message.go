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

var foldedKeys = foldExactKeys()

func foldExactKeys() map[string]bool {
	folded := map[string]bool{}
	for _, f := range exactKeys {
		folded[f] = true
	}
	return folded
}

// parseMessage reads one JSON-RPC 2.0 message strictly. Parsers disagree on
// duplicate keys, other cases, trailing data, batches and bad UTF-8; a body on
// which they could disagree is refused rather than repaired.
func parseMessage(body []byte) (message, *badMessage) {
	m := message{}
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	if len(trimmed) > 0 && trimmed[0] == '[' {
		return m, &badMessage{codeInvalidRequest, "batches are not served: send one message"}
	}
	if !utf8.Valid(body) {
		return m, &badMessage{codeParse, "the body is not UTF-8"}
	}
	top, text := members(body)
	if text != "" {
		return m, &badMessage{codeParse, text}
	}
	if tooDeep(body) {
		return m, &badMessage{codeInvalidRequest, "the body is nested too deeply"}
	}
	id, hasID := top["id"]
	if hasID {
		if id[0] != '"' && id[0] != '-' && (id[0] < '0' || id[0] > '9') {
			return m, &badMessage{codeInvalidRequest, "id must be a string or a number"}
		}
		m.id = id
	}
	if string(top["jsonrpc"]) != `"2.0"` {
		return m, &badMessage{codeInvalidRequest, `jsonrpc must be "2.0"`}
	}
	for key := range top {
		if _, ok := topKeys[key]; !ok {
			return m, &badMessage{codeInvalidRequest, "a JSON-RPC message has jsonrpc, id, method, params, result and error only"}
		}
	}
	return m.read(top)
}

var topKeys = map[string]bool{"jsonrpc": true, "id": true, "method": true, "params": true, "result": true, "error": true}

// read takes the fields out of a message whose keys are sound.
func (m message) read(top map[string]json.RawMessage) (message, *badMessage) {
	_, isResult := top["result"]
	_, isError := top["error"]
	raw, isCall := top["method"]
	if !isCall {
		if m.id == nil || isResult == isError {
			return m, &badMessage{codeInvalidRequest, "the message is neither a request nor a response"}
		}
		return m, nil
	}
	var ok bool
	if m.method, ok = text(raw); !ok || m.method == "" || isResult || isError {
		return m, &badMessage{codeInvalidRequest, "method must be a string, without result and error beside it"}
	}
	params := top["params"]
	if params == nil || string(params) == "null" {
		return m, missingName(m)
	}
	fields, wrong := members(params)
	if wrong != "" {
		return m, &badMessage{codeInvalidRequest, "params: " + wrong}
	}
	return m.readParams(params, fields)
}

func (m message) readParams(params json.RawMessage, fields map[string]json.RawMessage) (message, *badMessage) {
	for _, key := range []string{"taskId", "uri", "name"} { // the last one counts
		raw, ok := fields[key]
		if !ok {
			continue
		}
		if m.name, m.hasName = text(raw); !m.hasName && m.method == "tools/call" {
			return m, &badMessage{codeInvalidRequest, "params." + key + " must be a string"}
		}
	}
	if m.method == "tools/call" {
		m.tool, _ = text(fields["name"])
	}
	if m.method == "subscriptions/listen" {
		m.resources = mentions(params, "resourcesubscriptions")
	}
	// Escapes could hide the key, so a backslash is looked into as well.
	if meta := fields["_meta"]; meta != nil && (bytes.Contains(meta, []byte("rotocol")) || bytes.IndexByte(meta, '\\') >= 0) {
		inner, wrong := members(meta)
		if wrong != "" {
			return m, &badMessage{codeInvalidRequest, "params._meta: " + wrong}
		}
		m.version, _ = text(inner[versionKey])
	}
	return m, missingName(m)
}

func missingName(m message) *badMessage {
	if m.method == "tools/call" && m.tool == "" {
		return &badMessage{codeInvalidRequest, "tools/call needs params.name"}
	}
	return nil
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
			// K and ſ fold to k and s in some parsers: upper case first.
			f = strings.ToLower(strings.ToUpper(key))
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

// tooDeep walks the tokens only of bodies that have enough brackets to be too
// deep. raw must be valid JSON.
func tooDeep(raw []byte) bool {
	if bytes.Count(raw, []byte("{"))+bytes.Count(raw, []byte("[")) <= maxDepth {
		return false
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	depth := 0
	for n := 0; ; n++ {
		t, err := dec.Token()
		if err != nil {
			return false
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth > maxDepth || n > maxValues {
			return true
		}
	}
}

// mentions says whether any string or key of raw folds to word.
func mentions(raw []byte, word string) bool {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	for {
		t, err := dec.Token()
		if err != nil {
			return false
		}
		if s, ok := t.(string); ok && strings.ToLower(strings.ToUpper(s)) == word {
			return true
		}
	}
}

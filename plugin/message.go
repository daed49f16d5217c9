package plugin

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"unicode/utf8"
)

// message is what the policy knows of a JSON-RPC message.
type message struct {
	id        json.RawMessage // nil: a notification
	method    string          // "" for a response
	tool      string          // params.name of tools/call
	names     []string        // what Mcp-Name may mirror: params.name, uri and taskId
	version   string          // params._meta's protocol version
	resources bool            // subscriptions/listen asks for resources
	fast      bool            // read by fastCall: its texts are short
}

// noMessage is that of a request without a body.
var noMessage = &message{}

// badMessage is why a body is refused.
type badMessage struct {
	code int
	text string
}

// versionKey is where a message of revision 2026-07-28 has its version.
const versionKey = "io.modelcontextprotocol/protocolVersion"

// maxID bounds an id, since each refusal repeats it.
const maxID = 1 << 10

// What the SDKs write around the arguments of a call, with the id at either end.
var (
	callHead = regexp.MustCompile(`^\{"(?:jsonrpc":"2\.0","id":(` + plainID +
		`),")?method":"tools/call","params":\{"name":"([A-Za-z0-9_.-]{1,128})","arguments":`)
	callEnd = regexp.MustCompile(`\},"jsonrpc":"2\.0","id":(` + plainID + `)\}$`)
)

const plainID = `0|[1-9][0-9]{0,14}|"[A-Za-z0-9_-]{1,64}"`

// fastCall is callShape for a body that is not too deep either.
func fastCall(c *call, body []byte) bool { return callShape(c, body) && tooDeep(body, maxDepth) == "" }

// callShape reads the calls that most messages are, in a part of parseMessage's
// time, and leaves to it what it does not know. Both read the same from what it
// knows: around the arguments every byte is given, and they are one JSON value.
func callShape(c *call, body []byte) bool {
	head := callHead.FindSubmatch(body)
	if head == nil {
		return false
	}
	id := head[1]
	rest := body[len(head[0]):]
	if id != nil && bytes.HasSuffix(rest, []byte("}}")) {
		rest = rest[:len(rest)-2]
	} else if end := callEnd.FindSubmatchIndex(rest); id == nil && end != nil {
		id = rest[end[2]:end[3]]
		rest = rest[:end[0]]
	} else {
		return false
	}
	c.message = &message{id: id, method: "tools/call", tool: string(head[2]), fast: true}
	return json.Valid(rest) && utf8.Valid(rest)
}

// parseMessage reads one JSON-RPC 2.0 message strictly. Parsers disagree on
// duplicate keys, other cases, trailing data, batches and bad UTF-8; a body on
// which they could disagree is refused rather than repaired.
func parseMessage(body []byte) (*message, *badMessage) {
	m := &message{}
	top, wrong := members(body)
	if wrong != "" {
		return m, notAnObject(body, wrong)
	}
	wrong = envelope(m, top)
	if wrong == "" {
		wrong = tooDeep(body, maxDepth)
	}
	if wrong == "" && m.method != "" {
		wrong = readParams(m, top["params"])
	}
	return m, invalid(wrong)
}

func notAnObject(body []byte, wrong string) *badMessage {
	if bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), leftBracket) {
		return &badMessage{codeInvalidRequest, "batches are not served: send one message"}
	}
	return &badMessage{codeParse, wrong}
}

// envelope checks the members of JSON-RPC and returns what is wrong.
func envelope(m *message, top map[string]json.RawMessage) string {
	m.id = top["id"]
	if m.id != nil && (len(m.id) > maxID || (m.id[0] != '"' && m.id[0] != '-' && (m.id[0] < '0' || m.id[0] > '9'))) {
		m.id = nil
		return "id must be a string or a number of at most 1024 bytes"
	}
	if string(top["jsonrpc"]) != `"2.0"` {
		return `jsonrpc must be "2.0"`
	}
	for name := range top {
		if !topKeys[name] {
			return "a JSON-RPC message has jsonrpc, id, method, params, result and error only"
		}
	}
	m.method, _ = text(top["method"])
	if m.method == "" || top["result"] != nil || top["error"] != nil {
		return notACall(m, top)
	}
	return ""
}

var topKeys = map[string]bool{"jsonrpc": true, "id": true, "method": true, "params": true, "result": true,
	"error": true}

// notACall accepts a response only.
func notACall(m *message, top map[string]json.RawMessage) string {
	if top["method"] != nil {
		m.method = ""
		return "method must be a string, without result and error beside it"
	}
	if m.id == nil || (top["result"] == nil) == (top["error"] == nil) {
		return "the message is neither a request nor a response"
	}
	return ""
}

// readParams reads what policy needs and returns what is wrong.
func readParams(m *message, params json.RawMessage) string {
	if params == nil || string(params) == "null" {
		return missingName(m)
	}
	fields, wrong := members(params)
	if wrong != "" {
		return "params: " + wrong
	}
	if m.method == "tools/call" {
		m.tool, _ = text(fields["name"])
	}
	for _, key := range []string{"name", "uri", "taskId"} {
		if name, ok := text(fields[key]); ok {
			m.names = append(m.names, name)
		}
	}
	if m.method == "subscriptions/listen" {
		m.resources, wrong = asksForResources(params)
	}
	if wrong == "" && fields["_meta"] != nil {
		wrong = readMeta(m, fields["_meta"])
	}
	if wrong == "" {
		wrong = missingName(m)
	}
	return wrong
}

func missingName(m *message) string {
	if m.method == "tools/call" && m.tool == "" {
		return "tools/call needs params.name"
	}
	return ""
}

func readMeta(m *message, meta json.RawMessage) string {
	fields, wrong := members(meta)
	if wrong != "" {
		return "params._meta: " + wrong
	}
	m.version, _ = text(fields[versionKey])
	return ""
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

// asksForResources says whether the params of subscriptions/listen name
// resourceSubscriptions in any case, as a key or a string. An escape could hide
// it, so then every token is looked at, and what is too long for that is refused.
func asksForResources(params []byte) (bool, string) {
	const word = "resourcesubscriptions"
	if bytes.IndexByte(params, '\\') < 0 {
		return strings.Contains(fold(string(params)), word), ""
	}
	if len(params) > 16<<10 {
		return true, "the params of subscriptions/listen are too long to be read with escapes: write them without, " +
			"or in at most 16 KiB"
	}
	dec := json.NewDecoder(bytes.NewReader(params))
	dec.UseNumber()
	for {
		t, err := dec.Token()
		if err != nil { // of valid JSON, its end
			return false, ""
		}
		if s, ok := t.(string); ok && strings.Contains(fold(s), word) {
			return true, ""
		}
	}
}

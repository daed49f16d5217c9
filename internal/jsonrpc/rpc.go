// Package jsonrpc reads JSON-RPC 2.0 messages as bytes. It finds what the hub has
// to know (id, method, a few parameters) and leaves every other byte alone, so
// that 64-bit numbers, unknown methods and vendor fields survive.
package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/strictjson"
)

// Span is a half-open byte range in a message. The zero Span means "absent".
type Span = strictjson.Span

// Message is one JSON-RPC message.
type Message struct {
	Raw    []byte // the message, without a line end
	Method string // empty in a response
	id     Span
	params Span
	result Span
	fault  Span
}

// Member is one key of an object with the range of its value.
type Member struct {
	Key   string
	Value Span
}

// folded are the keys by which the hub decides. A peer that reads keys without
// regard to case would see another value than the hub, so near misses are
// refused.
var folded = []string{"jsonrpc", "id", "method", "params", "result", "error"}
var foldedParams = []string{"name", "uri", "arguments", "_meta", "requestId", "progressToken", "cursor"}

// Parse reads one message. Batches, duplicate or case-varied keys, trailing
// data and whatever is not JSON-RPC 2.0 are errors.
func Parse(raw []byte) (*Message, error) {
	raw = flat(raw)
	if !json.Valid(raw) {
		return nil, errors.New("not JSON")
	}
	if raw[0] != '{' {
		return nil, errors.New("not one JSON-RPC message (batches are not accepted)")
	}
	m := &Message{Raw: raw}
	top, err := members(raw, Span{Start: 0, End: len(raw)}, folded)
	if err != nil {
		return nil, err
	}
	return m, m.take(top)
}

// flat is raw without outer white space and line ends. Inside a string JSON
// allows no bare line end, so only white space changes.
func flat(raw []byte) []byte {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return []byte("!")
	}
	if !bytes.ContainsAny(raw, "\r\n") {
		return raw
	}
	raw = bytes.Clone(raw)
	for i, c := range raw {
		if c == '\n' || c == '\r' {
			raw[i] = ' '
		}
	}
	return raw
}

func (m *Message) take(top []Member) error {
	version := ""
	for _, f := range top {
		switch f.Key {
		case "jsonrpc":
			version = m.Text(f.Value)
		case "id":
			m.id = f.Value
		case "method":
			if m.Method = m.Text(f.Value); m.Method == "" {
				return errors.New("method is not a string")
			}
		case "params":
			m.params = f.Value
		case "result":
			m.result = f.Value
		case "error":
			m.fault = f.Value
		}
	}
	return m.check(version)
}

func (m *Message) check(version string) error {
	if version != "2.0" {
		return errors.New(`not JSON-RPC 2.0: "jsonrpc" is missing or wrong`)
	}
	if m.id.Present() {
		if c := m.Raw[m.id.Start]; c != '"' && c != '-' && (c < '0' || c > '9') && m.Method != "" {
			return errors.New("id is neither a string nor a number")
		}
	}
	if m.Method == "" && (!m.id.Present() || m.result.Present() == m.fault.Present()) {
		return errors.New("neither a request nor a response")
	}
	if m.params.Present() {
		if _, err := members(m.Raw, m.params, foldedParams); err != nil {
			return fmt.Errorf("params: %w", err)
		}
		if _, err := members(m.Raw, m.Find(m.params, "_meta"), nil); err != nil {
			return fmt.Errorf("params._meta: %w", err)
		}
	}
	return nil
}

// IsRequest reports a message that wants an answer.
func (m *Message) IsRequest() bool { return m.Method != "" && m.id.Present() }

// IsResponse reports an answer.
func (m *Message) IsResponse() bool { return m.Method == "" }

// ID is the id as it was written, or nil.
func (m *Message) ID() json.RawMessage {
	if !m.id.Present() {
		return nil
	}
	return m.Bytes(m.id)
}

// IDSpan is where the id stands.
func (m *Message) IDSpan() Span { return m.id }

// Params is the range of "params".
func (m *Message) Params() Span { return m.params }

// Result is the range of "result".
func (m *Message) Result() Span { return m.result }

// Param finds a value below "params".
func (m *Message) Param(path ...string) Span { return m.Find(m.params, path...) }

// VersionKey is where a message of MCP 2026-07-28 names its version.
const VersionKey = "io.modelcontextprotocol/protocolVersion"

// NamesVersion reports a request of the stateless era (MCP 2026-07-28).
func (m *Message) NamesVersion() bool { return m.IsRequest() && m.Param("_meta", VersionKey).Present() }

// Bytes are the bytes of s, which the caller must not change.
func (m *Message) Bytes(s Span) []byte { return m.Raw[s.Start:s.End] }

// Text is the string at s, or "" where there is no string.
func (m *Message) Text(s Span) string {
	if !s.Present() || m.Raw[s.Start] != '"' {
		return ""
	}
	var v string
	if json.Unmarshal(m.Bytes(s), &v) != nil {
		return ""
	}
	return v
}

// ErrorCode is the code of an error response, or 0.
func (m *Message) ErrorCode() int {
	n, _ := strconv.Atoi(string(m.Bytes(m.Find(m.fault, "code"))))
	return n
}

// ErrorText is the message of an error response.
func (m *Message) ErrorText() string { return m.Text(m.Find(m.fault, "message")) }

// IsError reports an error response.
func (m *Message) IsError() bool { return m.fault.Present() }

// Find walks keys down from the object at s. The zero Span is "not there".
func (m *Message) Find(s Span, path ...string) Span {
	for _, key := range path {
		list, err := members(m.Raw, s, nil)
		if err != nil {
			return Span{}
		}
		s = Span{}
		for _, f := range list {
			if f.Key == key {
				s = f.Value
			}
		}
	}
	return s
}

// Members are the keys and values of the object at s.
func (m *Message) Members(s Span) []Member {
	list, _ := members(m.Raw, s, nil)
	return list
}

// Strict says what in the object at s could be read in two ways: a key that is
// there twice, or one of exact in another case.
func (m *Message) Strict(s Span, exact ...string) error {
	_, err := members(m.Raw, s, exact)
	return err
}

// Elements are the ranges of the values in the array at s.
func (m *Message) Elements(s Span) []Span {
	if !s.Present() || m.Raw[s.Start] != '[' {
		return nil
	}
	var out []Span
	c := strictjson.At(m.Raw, s.Start)
	_ = c.Array(func() error { out = append(out, c.Skip()); return nil }) // it cannot fail
	return out
}

// members lists the keys of the object at s in raw, which must be valid JSON.
func members(raw []byte, s Span, exact []string) (out []Member, err error) {
	if !s.Present() || raw[s.Start] != '{' {
		return nil, nil
	}
	c := strictjson.At(raw, s.Start)
	err = c.Object(func(key string) error {
		for _, want := range exact {
			if key != want && strings.EqualFold(key, want) {
				return fmt.Errorf("key %q is written unlike %q", key, want)
			}
		}
		out = append(out, Member{key, c.Skip()})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

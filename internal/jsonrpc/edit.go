package jsonrpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// The JSON-RPC error codes that the hub itself uses.
const (
	ParseError     = -32700
	InvalidRequest = -32600
	MethodNotFound = -32601
	InvalidParams  = -32602
	InternalError  = -32603
	Unavailable    = -32000 // the server cannot be reached in its present state
	TimedOut       = -32001 // the call's deadline passed

	// Of MCP 2026-07-28.
	HeaderMismatch     = -32020
	MissingCapability  = -32021
	UnsupportedVersion = -32022
)

// Edit replaces the bytes of a range.
type Edit struct {
	At  Span
	New []byte
}

// Splice is raw with the edits applied. Edits of absent ranges are left out;
// the others must not overlap. Without any edit raw itself is returned.
func Splice(raw []byte, edits ...Edit) []byte {
	edits = slices.DeleteFunc(slices.Clone(edits), func(e Edit) bool { return !e.At.Present() })
	if len(edits) == 0 {
		return raw
	}
	slices.SortFunc(edits, func(a, b Edit) int { return a.At.Start - b.At.Start })
	var out bytes.Buffer
	at := 0
	for _, e := range edits {
		out.Write(raw[at:e.At.Start])
		out.Write(e.New)
		at = e.At.End
	}
	out.Write(raw[at:])
	return out.Bytes()
}

// BareID is an id without what some answer in its place: quotes around a number, or the
// number as a float.
func BareID(id []byte) []byte { return bytes.TrimSuffix(bytes.Trim(id, `"`), []byte(".0")) }

// Fault builds an error response. A nil id is null.
func Fault(id json.RawMessage, code int, format string, args ...any) []byte {
	text, _ := json.Marshal(fmt.Sprintf(format, args...))
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, orNull(id), code, text)
}

// FaultData is Fault with "data", which must be JSON.
func FaultData(id json.RawMessage, code int, text string, data json.RawMessage) []byte {
	quoted, _ := json.Marshal(text)
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s,"data":%s}}`, orNull(id), code,
		quoted, data)
}

// Answer builds a result response.
func Answer(id, result json.RawMessage) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, orNull(id), result)
}

// Request builds a request. Params must be JSON.
func Request(id, method string, params json.RawMessage) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params)
}

// Notification builds a notification. Params must be JSON.
func Notification(method string, params json.RawMessage) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params)
}

func orNull(id json.RawMessage) json.RawMessage {
	if id == nil {
		return json.RawMessage("null")
	}
	return id
}

package mux

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
)

// MaxResult bounds one answer, in bytes of JSON.
const MaxResult = 8 << 20

// frame is what stands around the texts of an answer that was cut, at most.
const frame = 4 << 10

// bounded is raw, or where it is too long what is left of it, marked. Only a
// tool's text can be cut; other answers become an error.
func bounded(c *Call, raw []byte) []byte {
	if len(raw) <= MaxResult {
		return raw
	}
	m, err := jsonrpc.Parse(raw)
	if err != nil || c.Message.Method != "tools/call" || !m.Result().Present() {
		return jsonrpc.Fault(c.Message.ID(), jsonrpc.InternalError, "the answer has %d bytes, at most %d are passed on",
			len(raw), MaxResult)
	}
	var result bytes.Buffer
	result.WriteByte('{')
	if at := m.Find(m.Result(), "resultType"); at.Present() {
		fmt.Fprintf(&result, `"resultType":%s,`, m.Bytes(at))
	}
	if string(m.Bytes(m.Find(m.Result(), "isError"))) == "true" {
		result.WriteString(`"isError":true,`)
	}
	result.WriteString(`"content":[`)
	for _, text := range texts(m, MaxResult-frame) {
		fmt.Fprintf(&result, `{"type":"text","text":%s},`, text)
	}
	fmt.Fprintf(&result,
		`{"type":"text","text":"[cut by the hub: the result has %d bytes, at most %d are passed on; ask for less at `+
			`a time]"}]}`, len(raw), MaxResult)
	return jsonrpc.Answer(c.Message.ID(), result.Bytes())
}

// texts are the result's text blocks as JSON strings, as much of them as fits
// into left bytes.
func texts(m *jsonrpc.Message, left int) (list [][]byte) {
	const around = len(`{"type":"text","text":},`)
	for _, at := range m.Elements(m.Find(m.Result(), "content")) {
		span := m.Find(at, "text")
		if !span.Present() || m.Raw[span.Start] != '"' {
			continue
		}
		left -= around
		if left < 2 {
			return list
		}
		text := cut(m.Bytes(span), left)
		list, left = append(list, text), left-len(text)
	}
	return list
}

// cut is the beginning of a JSON string, at most limit bytes with its quotes. It
// ends between two characters, never inside an escape or a surrogate pair.
func cut(text []byte, limit int) []byte {
	if len(text) <= limit {
		return text
	}
	end := 1
	for at := 1; at < limit-1; {
		switch {
		case text[at] != '\\':
			_, n := utf8.DecodeRune(text[at:])
			at += n
		case text[at+1] == 'u' && high(text[at+2:]) && bytes.HasPrefix(text[at+6:], []byte(`\u`)):
			at += 12
		case text[at+1] == 'u':
			at += 6
		default:
			at += 2
		}
		if at <= limit-1 {
			end = at
		}
	}
	return append(bytes.Clone(text[:end]), '"')
}

// high reports the first half of a surrogate pair, D800 to DBFF.
func high(digits []byte) bool {
	return (digits[0] == 'd' || digits[0] == 'D') && bytes.IndexByte([]byte("89abAB"), digits[1]) >= 0
}

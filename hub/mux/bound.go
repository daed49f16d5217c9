package mux

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
)

// MaxResult bounds one answer, in bytes of JSON.
const MaxResult = 8 << 20

// bounded is raw, or where it is too long what is left of it, marked. Only a
// tool's text can be cut; other answers become an error.
func bounded(c *Call, raw []byte) []byte {
	if len(raw) <= MaxResult {
		return raw
	}
	m, err := jsonrpc.Parse(raw)
	if err != nil || c.Message.Method != "tools/call" || !m.Result().Present() {
		return jsonrpc.Fault(c.Message.ID(), jsonrpc.InternalError, "the answer has %d bytes, at most %d are passed on", len(raw), MaxResult)
	}
	mark := fmt.Sprintf("[cut by the hub: the result has %d bytes, at most %d are passed on; ask for less at a time]", len(raw), MaxResult)
	parts := append(texts(m), mark)
	type block struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	result := struct {
		ResultType string  `json:"resultType,omitempty"`
		Content    []block `json:"content"`
		IsError    bool    `json:"isError,omitempty"`
	}{ResultType: m.Text(m.Find(m.Result(), "resultType")), IsError: string(m.Bytes(m.Find(m.Result(), "isError"))) == "true"}
	for _, text := range parts {
		result.Content = append(result.Content, block{"text", text})
	}
	body, err := json.Marshal(result)
	if err != nil {
		return jsonrpc.Fault(c.Message.ID(), jsonrpc.InternalError, "%s", mark)
	}
	return jsonrpc.Answer(c.Message.ID(), body)
}

// texts are the result's text blocks up to a sixth of the bound, which is what
// they may take when every byte has to be escaped.
func texts(m *jsonrpc.Message) (list []string) {
	left := MaxResult / 6
	for _, at := range m.Elements(m.Find(m.Result(), "content")) {
		text := m.Text(m.Find(at, "text"))
		if len(text) > left {
			cut := left
			for cut > 0 && !utf8.RuneStart(text[cut]) {
				cut--
			}
			text = text[:cut]
		}
		if left -= len(text); text != "" {
			list = append(list, text)
		}
	}
	return list
}

package plugin

import (
	"bytes"
	"encoding/json"
)

// filterList takes the tools that are not granted out of the answer to
// tools/list. What is not such an answer is returned as it is. The second
// result is false where raw is not a JSON object.
func filterList(raw []byte, g *grants) ([]byte, bool) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(raw, &top); err != nil || top == nil {
		return raw, false
	}
	var result map[string]json.RawMessage
	if err := json.Unmarshal(top["result"], &result); err != nil {
		return raw, true
	}
	var tools []map[string]json.RawMessage
	if err := json.Unmarshal(result["tools"], &tools); err != nil {
		return raw, true
	}
	kept := []map[string]json.RawMessage{}
	for i := range tools {
		if name, ok := text(tools[i]["name"]); ok && g.tools[name] {
			kept = append(kept, tools[i])
		}
	}
	if len(kept) == len(tools) {
		return raw, true
	}
	result["tools"] = encode(kept)
	top["result"] = encode(result)
	return encode(top), true
}

// encode keeps values as they were written: numbers of any size, and < and >.
func encode(v interface{}) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return []byte("null")
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

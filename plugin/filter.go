package plugin

import (
	"bytes"
	"encoding/json"
)

// filterAnswer filters a whole answer by the grants, and says why it must be
// stopped. What is no JSON, and does not look like it, passes: no client finds a
// list in it.
func filterAnswer(body []byte, g *grants) ([]byte, string) {
	text := bytes.Trim(body, looseSpace)
	if len(text) == 0 || (text[0] != '{' && text[0] != '[') {
		if bytes.IndexByte(text, 0) >= 0 {
			return nil, "it is no text that can be filtered"
		}
		return body, ""
	}
	if text[0] == '[' {
		return nil, "a batch cannot be filtered"
	}
	list, why := filterList(text, g)
	if why == "" && len(list) == len(text) {
		return body, ""
	}
	return list, why
}

// filterList takes the tools that are not granted out of an answer that has any,
// whichever method it answers. Clients could read doubled and differently cased
// keys otherwise than the policy, so those stop the answer or hide the tool.
func filterList(raw []byte, g *grants) ([]byte, string) {
	top, why := listMembers(raw)
	if why != "" || top["result"] == nil || top["result"][0] != '{' {
		return raw, why
	}
	result, why := listMembers(top["result"])
	if why != "" || result["tools"] == nil {
		return raw, why
	}
	var tools []json.RawMessage
	_ = json.Unmarshal(result["tools"], &tools) // what is no list has no tools
	kept := []json.RawMessage{}
	for i := range tools {
		if grantedEntry(tools[i], g) {
			kept = append(kept, tools[i])
		}
	}
	if len(kept) == len(tools) && tools != nil {
		return raw, ""
	}
	result["tools"] = encode(kept)
	top["result"] = encode(result)
	return encode(top), ""
}

func grantedEntry(entry json.RawMessage, g *grants) bool {
	fields, wrong := members(entry)
	if wrong != "" {
		return false
	}
	name, ok := text(fields["name"])
	return ok && g.tools[name]
}

// listMembers are the members of an object that may hold a list of tools.
func listMembers(raw []byte) (map[string]json.RawMessage, string) {
	fields, wrong := members(raw)
	if wrong != "" {
		return nil, "it cannot be filtered: " + wrong
	}
	for key := range fields {
		if key != "tools" && fold(key) == "tools" {
			return nil, "it cannot be filtered: " + otherCase
		}
	}
	return fields, ""
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

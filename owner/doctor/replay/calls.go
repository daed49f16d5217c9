package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
)

// calls opens a session with the token, lists the tools, and ends the session.
func (w *Walk) calls(ctx context.Context) {
	header := maps.Clone(mcpHeader)
	header["Authorization"] = "Bearer " + w.token.Access
	a := w.send(ctx, "POST", w.URL.String(), []byte(initialize), header)
	if a == nil || !w.passed(a, "initialize") {
		return
	}
	session := a.header.Get("Mcp-Session-Id")
	if session != "" {
		header["Mcp-Session-Id"] = session
	}
	header["MCP-Protocol-Version"] = "2025-06-18"
	if a = w.send(ctx, "POST", w.URL.String(), []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`),
		header); a == nil || !w.passed(a, "notifications/initialized") {
		return
	}
	a = w.send(ctx, "POST", w.URL.String(), []byte(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`), header)
	if a == nil || !w.passed(a, "tools/list") {
		return
	}
	var list struct {
		Result *struct {
			Tools []any `json:"tools"`
		} `json:"result"`
	}
	if json.Unmarshal(message(a.body), &list) != nil || list.Result == nil {
		w.stumble("call-failed", "tools/list: %s", w.short(a))
		return
	}
	if session != "" {
		w.send(ctx, "DELETE", w.URL.String(), nil, header)
	}
	w.ok("initialize and tools/list with the token: %d tools", len(list.Result.Tools))
}

func (w *Walk) passed(a *answer, method string) bool {
	switch {
	case a.status == 401:
		w.stumble("authorized-then-401", "%s with the token: 401 %s; %s", method, a.header.Get("WWW-Authenticate"),
			claimsOf(w.token.Access))
	case a.status == 403:
		w.stumble("forbidden", "%s with the token: 403 %s; %s", method, w.short(a), claimsOf(w.token.Access))
	case a.status < 200 || a.status > 299:
		w.stumble("call-failed", "%s with the token: %d %s", method, a.status, w.short(a))
	default:
		return true
	}
	return false
}

// message is the JSON of an answer, plain or as the last event of a stream.
func message(body []byte) []byte {
	if !bytes.Contains(body, []byte("data:")) || bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		return body
	}
	for line := range bytes.Lines(body) {
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && json.Valid(data) {
			body = data
		}
	}
	return body
}

package mcphttp

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
)

// named is the parameter that Mcp-Name repeats, by method.
var named = map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

// checkStateless answers a message of 2026-07-28 whose headers disagree with
// its body, or whose request lacks what every request must say. nil lets it
// pass.
func checkStateless(h http.Header, m *jsonrpc.Message) []byte {
	mismatch := func(header, body string) []byte {
		return jsonrpc.Fault(m.ID(), jsonrpc.HeaderMismatch, "header mismatch: %s is %q, in the body it is %q", header,
			h.Get(header), body)
	}
	if !m.IsRequest() {
		if given := h.Get(methodHeader); given != "" && given != m.Method {
			return mismatch("Mcp-Method", m.Method)
		}
		return nil
	}
	capabilities := m.Param("_meta", capabilitiesKey)
	version := m.Text(m.Param("_meta", jsonrpc.VersionKey))
	param := named[m.Method]
	switch {
	case version == "" || !capabilities.Present() || m.Raw[capabilities.Start] != '{':
		return jsonrpc.Fault(m.ID(), jsonrpc.InvalidParams, "params._meta must hold %s and %s", jsonrpc.VersionKey,
			capabilitiesKey)
	case version != h.Get(versionHeader):
		return mismatch("MCP-Protocol-Version", version)
	case h.Get(methodHeader) != m.Method:
		return mismatch("Mcp-Method", m.Method)
	case param != "" && !repeats(h, m.Text(m.Param(param))):
		return mismatch("Mcp-Name", m.Text(m.Param(param)))
	}
	return nil
}

// repeats reports whether the one Mcp-Name header says name.
func repeats(h http.Header, name string) bool {
	said, valid := Decode(h.Get(nameHeader))
	return valid && len(h.Values(nameHeader)) == 1 && said == name
}

// Decode undoes =?base64?…?=, in which a header carries what it cannot hold as
// it is (MCP 2026-07-28, streamable HTTP, Value Encoding). What is not
// canonical Base64 is not ok: two readers could see two values.
func Decode(value string) (plain string, ok bool) {
	inner, found := strings.CutPrefix(value, "=?base64?")
	if !found || !strings.HasSuffix(inner, "?=") {
		return value, true
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSuffix(inner, "?="))
	return string(raw), err == nil && !strings.ContainsAny(inner, "\r\n")
}

// mcpHeaders are those of a stateless request that its target has to see.
func mcpHeaders(h http.Header) http.Header {
	out := http.Header{}
	for name, values := range h {
		if strings.HasPrefix(name, "Mcp-") && name != sessionHeader {
			out[name] = values
		}
	}
	return out
}

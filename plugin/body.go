package plugin

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
)

// JSON-RPC 2.0, section 5.1, and MCP's own code for a header that disagrees.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeMethod         = -32601
	codeParams         = -32602
	codeHeader         = -32020
)

// checkBody reads the body of a POST under its cap, checks it, and puts the
// same bytes back for the backend. They are in memory before next runs, since a
// body that fails while it is proxied becomes an empty request.
func checkBody(c *call) bool {
	r := c.r
	n := r.ContentLength
	if !c.known && !checkContent(c) {
		return false
	}
	if n < 0 || n > smallBody || n > c.e.cfg.MaxBodyBytes {
		return checkLarge(c)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		return unreadable(c, err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	wrong := readMessage(c, body)
	return wrong == nil || refuseMessage(c, wrong)
}

func checkContent(c *call) bool {
	h := c.r.Header
	kind := h["Content-Type"]
	if strings.EqualFold(strings.Join(h["Content-Encoding"], ","), "identity") { // none
		delete(h, "Content-Encoding")
	}
	if h["Content-Encoding"] == nil && len(kind) == 1 && (kind[0] == "application/json" || jsonContent(kind[0])) {
		return true
	}
	return rpcRefuse(c, http.StatusUnsupportedMediaType, "content_type", codeInvalidRequest,
		"send application/json in UTF-8, without Content-Encoding")
}

// readBody reads all of a body, into one piece where its length is known.
func readBody(from io.Reader, length int64) ([]byte, error) {
	if length < 0 {
		return io.ReadAll(from)
	}
	body := make([]byte, length)
	_, err := io.ReadFull(from, body)
	return body, err
}

// putBack gives the backend the same bytes.
func putBack(r *http.Request, body []byte) {
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	r.TransferEncoding = nil
}

// readMessage says what is wrong with a body. It answers nothing: a large one is
// read under a lock.
func readMessage(c *call, body []byte) *badMessage {
	h := c.r.Header
	if h["Mcp-Method"] == nil && h["Mcp-Name"] == nil && callShape(c, body) {
		if bytes.Count(body, leftBrace)+bytes.Count(body, leftBracket) <= maxDepth {
			return nil
		}
		return invalid(tooDeep(body, maxDepth))
	}
	m, wrong := parseMessage(body)
	c.message = m
	if wrong == nil && (h["Mcp-Method"] != nil || h["Mcp-Name"] != nil || m.version != "") {
		wrong = disagreement(h, m)
	}
	return wrong
}

func invalid(wrong string) *badMessage {
	if wrong == "" {
		return nil
	}
	return &badMessage{codeInvalidRequest, wrong}
}

func refuseMessage(c *call, wrong *badMessage) bool {
	return rpcRefuse(c, http.StatusBadRequest, "json_rpc", wrong.code, wrong.text)
}

func unreadable(c *call, err error) bool {
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		return tooLarge(c)
	}
	return refuse(c, http.StatusBadRequest, "body", "the body could not be read")
}

func tooLarge(c *call) bool {
	return rpcRefuse(c, http.StatusRequestEntityTooLarge, "body_size", codeInvalidRequest,
		"the body is over this endpoint's limit")
}

// jsonContent also stops a page's simple cross-origin POST, which cannot have
// this content type, and bodies that the policy could not read.
func jsonContent(value string) bool {
	kind, params, err := mime.ParseMediaType(value)
	charset := strings.ToLower(params["charset"])
	return err == nil && kind == "application/json" && (charset == "" || charset == "utf-8" || charset == "utf8")
}

// disagreement compares the headers of revision 2026-07-28 with the body. A
// backend may decide on either, so they must say the same.
func disagreement(h http.Header, m *message) *badMessage {
	method := h["Mcp-Method"]
	name := h["Mcp-Name"]
	version := h["Mcp-Protocol-Version"]
	switch {
	case len(method) > 1 || len(name) > 1 || len(version) > 1:
		return &badMessage{codeHeader, "an Mcp- header is there twice"}
	case len(method) == 1 && method[0] != m.method:
		return &badMessage{codeHeader, "Mcp-Method is not the method of the body"}
	case len(name) == 1 && !sameName(name[0], m):
		return &badMessage{codeHeader, "Mcp-Name is not the name in the body"}
	case len(version) == 1 && m.version != "" && version[0] != m.version:
		return &badMessage{codeHeader, "MCP-Protocol-Version is not the version in the body"}
	}
	return nil
}

// sameName decodes =?base64?…?=, the form for names that a header cannot hold.
// Where the body has several, a backend may read any of them.
func sameName(header string, m *message) bool {
	if strings.HasPrefix(header, "=?base64?") && strings.HasSuffix(header, "?=") && len(header) >= len("=?base64??=") {
		raw, err := base64.StdEncoding.Strict().DecodeString(header[len("=?base64?") : len(header)-len("?=")])
		if err != nil {
			return false
		}
		header = string(raw)
	}
	for i := range m.names {
		if m.names[i] != header {
			return false
		}
	}
	return len(m.names) > 0
}

// rpcRefuse answers with a JSON-RPC error that has the request's id, or null.
func rpcRefuse(c *call, status int, verdict string, code int, text string) bool {
	id := c.message.id
	if id == nil {
		id = []byte("null")
	}
	quoted, _ := json.Marshal(text)
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, id, code, quoted)
	return answer(c, status, verdict, "application/json", []byte(body))
}

// checkHeaders takes out what must not reach the backend, and remembers headers
// that pass as they are.
func checkHeaders(c *call, plain bool) bool {
	var odd bytes.Buffer
	_ = c.r.Header.WriteSubset(&odd, fine) // compiled code finds what has no place in the list
	if odd.Len() > 0 {
		return dropHeaders(c)
	}
	if plain && c.who.calls != nil { // a token of the configuration
		remember(c)
	}
	return true
}

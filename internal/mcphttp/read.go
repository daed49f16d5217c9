package mcphttp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
)

// maxGreeting bounds what opens a session, in bytes: it is kept as long as the
// session is, and there are many.
const maxGreeting = 64 << 10

// read takes the message out of a request, or answers why it cannot.
func read(w http.ResponseWriter, r *http.Request) *jsonrpc.Message {
	if !isJSON(r.Header.Get("Content-Type")) {
		http.Error(w, "Content-Type must be application/json", http.StatusUnsupportedMediaType)
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err == nil && !utf8.Valid(body) {
		err = errors.New("not UTF-8")
	}
	var m *jsonrpc.Message
	if err == nil {
		m, err = jsonrpc.Parse(body)
	}
	if err == nil && jsonrpc.TooDeep(body) {
		err = fmt.Errorf("it is nested deeper than %d levels", jsonrpc.MaxDepth)
	}
	// What is no notification must not pass as one: a server may run it.
	if err == nil && m.Method != "" && !m.IsRequest() && !strings.HasPrefix(m.Method, "notifications/") {
		err = fmt.Errorf("%s without an id", m.Method)
	}
	if err == nil && len(body) > maxGreeting && (m.Method == "initialize" || m.Method == "notifications/initialized") {
		err = fmt.Errorf("%s is longer than 64 KiB", m.Method)
	}
	if err != nil {
		writeJSON(w, http.StatusBadRequest, jsonrpc.Fault(nil, jsonrpc.ParseError, "the body is refused: %v", err))
		return nil
	}
	return m
}

// isJSON reports the media type application/json, whatever its parameters. A
// parameter that cannot be read says nothing about the body.
func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	kind, _, err := mime.ParseMediaType(contentType)
	return kind == "application/json" && (err == nil || errors.Is(err, mime.ErrInvalidMediaParameter))
}

// sessionsOnly refuses a request of the stateless protocol, with an error by which
// a client of both falls back on initialize.
func sessionsOnly(m *jsonrpc.Message) []byte {
	data, _ := json.Marshal(map[string]any{"supported": Versions,
		"requested": m.Text(m.Param("_meta", jsonrpc.VersionKey))})
	return jsonrpc.FaultData(m.ID(), jsonrpc.UnsupportedVersion,
		"only versions with sessions are served here: send initialize", data)
}

// statelessStatus is the HTTP status that 2026-07-28 wants for an answer.
func statelessStatus(raw []byte) int {
	if !isFault(raw) {
		return http.StatusOK
	}
	m, _ := jsonrpc.Parse(raw)
	switch m.ErrorCode() {
	case jsonrpc.MethodNotFound:
		return http.StatusNotFound
	case jsonrpc.InvalidParams, jsonrpc.HeaderMismatch, jsonrpc.MissingCapability, jsonrpc.UnsupportedVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// statusOK is the status of every answer in a session.
func statusOK([]byte) int { return http.StatusOK }

// Refuse answers for a target that cannot serve now: 503 and a JSON-RPC error.
func Refuse(w http.ResponseWriter, err error) { refuse(w, unavailable(nil, err), err) }

func refuse(w http.ResponseWriter, raw []byte, err error) {
	var why Refusal
	if errors.As(err, &why) && why.RetryIn() > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(why.RetryIn().Seconds()))))
	}
	writeJSON(w, http.StatusServiceUnavailable, raw)
}

func unavailable(id []byte, err error) []byte {
	var why Refusal
	if !errors.As(err, &why) {
		return jsonrpc.Fault(id, jsonrpc.Unavailable, "%v", err)
	}
	return jsonrpc.FaultData(id, jsonrpc.Unavailable, err.Error(), why.Data())
}

func writeJSON(w http.ResponseWriter, status int, raw []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	w.WriteHeader(status)
	_, _ = w.Write(raw)
}

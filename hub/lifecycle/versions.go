package lifecycle

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/sallyport-dev/sallyport/hub/pins"
	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
	"github.com/sallyport-dev/sallyport/internal/mcphttp"
)

// maxMarks is of how many kinds of clients a snapshot remembers the answers.
const maxMarks = 8

// mark stands for what a client said it can do: servers show other tools to a
// client that samples or elicits. A client without capabilities, as the hub
// itself is one, has none.
func mark(hello *jsonrpc.Message) string {
	at := hello.Param("capabilities")
	if len(hello.Members(at)) == 0 {
		return ""
	}
	return pins.Fingerprint(hello.Bytes(at))[:16]
}

// initKey is where a snapshot has the answer to a handshake.
func initKey(version, mark string) string {
	if mark == "" {
		return version
	}
	return version + " " + mark
}

// mark is that of the clients that a channel was opened for. A shared one is
// for all.
func (ch *channel) mark() string {
	if ch.hello == nil || ch.server.cfg.Shared {
		return ""
	}
	return mark(ch.hello)
}

// initResult is the snapshot's answer to initialize, or nil. A server that is
// initialised once for everybody has one answer for all.
func (s *Server) initResult(hello *jsonrpc.Message) json.RawMessage {
	version := hello.Text(hello.Param("protocolVersion"))
	snap := s.snapshot()
	for _, v := range slices.Backward(mcphttp.Versions) {
		if result := snap.Init[v]; result != nil && s.cfg.Shared {
			return s.forVersion(result, version)
		}
	}
	return snap.Init[initKey(version, mark(hello))]
}

// toolsFor is the snapshot's list for clients of a mark, or nil.
func (s *Server) toolsFor(mark string) json.RawMessage {
	snap := s.snapshot()
	if mark == "" || s.cfg.Shared {
		return snap.Tools
	}
	return snap.ToolsFor[mark]
}

// rememberTools keeps the list that a channel gave.
func (s *Server) rememberTools(ch *channel, said []byte) {
	key := ch.mark()
	switch {
	case ch.modern():
		s.remember(func(snap *pins.Snapshot) *json.RawMessage { return &snap.ModernTools }, said)
		return
	case key == "":
		s.remember(func(snap *pins.Snapshot) *json.RawMessage { return &snap.Tools }, said)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes.Equal(s.snap.ToolsFor[key], said) {
		return
	}
	if len(s.snap.ToolsFor) >= maxMarks && s.snap.ToolsFor[key] == nil {
		clear(s.snap.ToolsFor) // a new kind each time does not fill the disk
	}
	s.snap.ToolsFor[key] = said
	s.save(func() { delete(s.snap.ToolsFor, key) })
}

// forVersion answers a client of an older version with its own one: what newer
// versions add, older clients must ignore.
func (s *Server) forVersion(result json.RawMessage, version string) json.RawMessage {
	m := mustParse(jsonrpc.Answer(nil, result))
	at := m.Find(m.Result(), "protocolVersion")
	if !s.cfg.Shared || slices.Index(mcphttp.Versions, version) < 0 || m.Text(at) <= version {
		return result
	}
	quoted, _ := json.Marshal(version)
	m = mustParse(jsonrpc.Splice(m.Raw, jsonrpc.Edit{At: at, New: quoted}))
	return m.Bytes(m.Result())
}

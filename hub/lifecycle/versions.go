package lifecycle

import (
	"encoding/json"
	"slices"

	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
	"github.com/sallyport-dev/sallyport/internal/mcphttp"
)

// initResult is the snapshot's answer to initialize, or nil. A server that is
// greeted once for everybody has one answer for all versions.
func (s *Server) initResult(version string) json.RawMessage {
	snap := s.snapshot()
	for _, v := range slices.Backward(mcphttp.Versions) {
		if result := snap.Init[v]; result != nil && s.cfg.Shared {
			return s.forVersion(result, version)
		}
	}
	return snap.Init[version]
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

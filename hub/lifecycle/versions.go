package lifecycle

import (
	"encoding/json"
	"slices"

	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
)

// versions of MCP that have sessions, oldest first.
var versions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

// Stateless is the first version of MCP without sessions.
const Stateless = "2026-07-28"

// Known reports a version with sessions; an absent header is one, too.
func Known(version string) bool { return version == "" || slices.Contains(versions, version) }

// initResult is the snapshot's answer to initialize, or nil. A server that is
// greeted once for everybody has one answer for all versions.
func (s *Server) initResult(version string) json.RawMessage {
	snap := s.snapshot()
	for _, v := range slices.Backward(versions) {
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
	if !s.cfg.Shared || slices.Index(versions, version) < 0 || m.Text(at) <= version {
		return result
	}
	quoted, _ := json.Marshal(version)
	m = mustParse(jsonrpc.Splice(m.Raw, jsonrpc.Edit{At: at, New: quoted}))
	return m.Bytes(m.Result())
}

// Package pins is the hub's state directory: what a sleeping server said about
// itself, which tool definitions are accepted, and how the owner looks at those
// that changed. The hub writes it, and "sallyport accept", run by hand.
package pins

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/sallyport-dev/sallyport/internal/procfs"
)

// What is kept of the servers' answers, in memory and on disk alike, in bytes.
// A server whose answer does not fit is woken to give it.
const (
	MaxAnswer  = 8 << 20  // one answer; a longer one is not passed on either
	MaxServer  = 16 << 20 // all of one server
	MaxServers = 64 << 20 // all of all servers
)

// ErrRoom means that a snapshot would pass one of these bounds.
var ErrRoom = errors.New("there is no room for the snapshot")

// Store is the state directory.
type Store struct {
	dir string

	mu      sync.Mutex
	kept    map[string]share   // of the snapshots' room, by server
	waiting map[string]waiting // what Pending last read, by server
}

// share is what one server takes of the snapshots' room.
type share struct {
	hash string // of its entry
	size int
}

// Snapshot is what a server said about itself, as it said it.
type Snapshot struct {
	Hash string `json:"hash"` // of the entry: another one makes it void
	// Init holds the result of initialize by the version that was asked for; a
	// client with capabilities adds their mark: see For.
	Init  map[string]json.RawMessage `json:"init,omitempty"`
	Tools json.RawMessage            `json:"tools,omitempty"` // result of tools/list, for clients without capabilities
	// ToolsFor holds it by the mark of a client's capabilities.
	ToolsFor    map[string]json.RawMessage `json:"toolsFor,omitempty"`
	Discover    json.RawMessage            `json:"discover,omitempty"`    // of server/discover
	ModernTools json.RawMessage            `json:"modernTools,omitempty"` // of tools/list in 2026-07-28
}

// Open prepares dir, which the hub's own user must be able to write.
func Open(dir string) (*Store, error) {
	for _, sub := range []string{"snapshots", "pins", "definitions", "stdio"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("state directory: %w", err)
		}
		_, _ = procfs.OpenToOwner(filepath.Join(dir, sub)) // a stdio server of before may have closed it
	}
	return &Store{dir: dir, kept: map[string]share{}, waiting: map[string]waiting{}}, nil
}

// Private is the directory of one stdio server, made at need.
func (s *Store) Private(server string) (string, error) {
	dir := filepath.Join(s.dir, "stdio", server)
	return dir, os.MkdirAll(dir, 0o700)
}

// Load returns the snapshot of a server whose entry has this hash. Without one,
// with a damaged one, or one that finds no room, it is empty.
func (s *Store) Load(server, hash string) Snapshot {
	var snap Snapshot
	file := s.file("snapshots", server)
	info, err := os.Stat(file)
	if err != nil || info.Size() > 2*MaxServer || s.read(file, &snap) != nil || snap.Hash != hash ||
		!s.reserve(server, &snap) {
		snap = Snapshot{Hash: hash}
	}
	if snap.Init == nil {
		snap.Init = map[string]json.RawMessage{}
	}
	if snap.ToolsFor == nil {
		snap.ToolsFor = map[string]json.RawMessage{}
	}
	return snap
}

// Save keeps a snapshot. With ErrRoom the one before stays.
func (s *Store) Save(server string, snap Snapshot) error {
	if !s.reserve(server, &snap) {
		return ErrRoom
	}
	return s.write(s.file("snapshots", server), snap)
}

// Release gives back the room of a server's snapshot, which stays on disk until
// the entry of its name says something else.
func (s *Store) Release(server, hash string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept[server].hash == hash { // else an edited entry has it by now
		delete(s.kept, server)
	}
}

// reserve takes room for a snapshot in place of the server's last one.
func (s *Store) reserve(server string, snap *Snapshot) bool {
	size, longest := snap.size()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := size
	for name, share := range s.kept {
		if name != server {
			all += share.size
		}
	}
	if longest > MaxAnswer || size > MaxServer || all > MaxServers {
		return false
	}
	s.kept[server] = share{snap.Hash, size}
	return true
}

// size is the sum of a snapshot's answers, and the longest of them, in bytes.
func (snap *Snapshot) size() (sum, longest int) {
	count := func(raw json.RawMessage) {
		sum, longest = sum+len(raw), max(longest, len(raw))
	}
	for _, list := range []map[string]json.RawMessage{snap.Init, snap.ToolsFor} {
		for _, raw := range list {
			count(raw)
		}
	}
	count(snap.Tools)
	count(snap.Discover)
	count(snap.ModernTools)
	return sum, longest
}

func (s *Store) file(kind, server string) string {
	return filepath.Join(s.dir, kind, server+".json")
}

func (s *Store) read(file string, v any) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// write replaces a file as a whole. Bytes of a server stay as they are, so
// nothing is escaped that it did not escape.
func (s *Store) write(file string, v any) error {
	var data bytes.Buffer
	enc := json.NewEncoder(&data)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data.Bytes())
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}

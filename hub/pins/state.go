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
)

// Store is the state directory.
type Store struct {
	dir string
	mu  sync.Mutex
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
	}
	return &Store{dir: dir}, nil
}

// Private is the directory of one stdio server, made at need.
func (s *Store) Private(server string) (string, error) {
	dir := filepath.Join(s.dir, "stdio", server)
	return dir, os.MkdirAll(dir, 0o700)
}

// Load returns the snapshot of a server whose entry has this hash. Without one,
// or with a damaged one, it is empty.
func (s *Store) Load(server, hash string) Snapshot {
	var snap Snapshot
	if s.read(s.file("snapshots", server), &snap) != nil || snap.Hash != hash {
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

// Save keeps a snapshot.
func (s *Store) Save(server string, snap Snapshot) error {
	return s.write(s.file("snapshots", server), snap)
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

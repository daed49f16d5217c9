// Package store keeps what the hub must remember between runs: what a sleeping
// server said about itself, and which tool definitions the owner has seen.
package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
)

// Store is the state directory.
type Store struct {
	dir string
	mu  sync.Mutex
}

// Snapshot is what a server said about itself, as it said it.
type Snapshot struct {
	Hash string `json:"hash"` // of the entry: another one makes it void
	// Init holds the result of initialize by the version that was asked for.
	Init        map[string]json.RawMessage `json:"init,omitempty"`
	Tools       json.RawMessage            `json:"tools,omitempty"`       // result of tools/list
	Discover    json.RawMessage            `json:"discover,omitempty"`    // of server/discover
	ModernTools json.RawMessage            `json:"modernTools,omitempty"` // of tools/list in 2026-07-28
}

// pins are the definitions of one server's tools by their hashes.
type pins struct {
	Accepted map[string]string `json:"accepted"`
	Pending  map[string]string `json:"pending,omitempty"` // withheld
}

// maxPins and maxName bound what is remembered of a server that invents a name
// with each look: beyond them, new tools are withheld and cannot be accepted.
const maxPins, maxName = 20000, 256

// Open prepares dir, which the hub's own user must be able to write.
func Open(dir string) (*Store, error) {
	for _, sub := range []string{"snapshots", "pins", "stdio"} {
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
	return snap
}

// Save keeps a snapshot.
func (s *Store) Save(server string, snap Snapshot) error {
	return s.write(s.file("snapshots", server), snap)
}

// Pin compares tool definitions (name to hash) with the accepted ones. What is
// new is accepted at first sight; the names of changed ones are returned and
// stay withheld until Accept.
func (s *Store) Pin(server string, seen map[string]string) (changed []string, err error) {
	err = s.change(server, func(p *pins) bool {
		before := len(p.Accepted)
		wait := maps.Clone(p.Pending)
		for tool, hash := range seen {
			if p.Accepted[tool] == "" && len(p.Accepted) < maxPins && len(tool) <= maxName {
				p.Accepted[tool] = hash
			}
			delete(p.Pending, tool)
			if p.Accepted[tool] == hash {
				continue
			}
			changed = append(changed, tool)
			if len(p.Pending) < maxPins && len(tool) <= maxName {
				p.Pending[tool] = hash
			}
		}
		return len(p.Accepted) != before || !maps.Equal(wait, p.Pending)
	})
	slices.Sort(changed)
	return changed, err
}

// Pinned reports whether anything of this server was ever accepted.
// Of what cannot be read it is believed.
func (s *Store) Pinned(server string) bool {
	_, err := os.Stat(s.file("pins", server))
	return !errors.Is(err, fs.ErrNotExist)
}

// Pending names the withheld tools of a server.
func (s *Store) Pending(server string) []string {
	var p pins
	_ = s.read(s.file("pins", server), &p) // without any there are none
	return slices.Sorted(maps.Keys(p.Pending))
}

// Accept makes the withheld definitions of a server the accepted ones.
func Accept(dir, server string) (tools []string, err error) {
	err = (&Store{dir: dir}).change(server, func(p *pins) bool {
		tools = slices.Sorted(maps.Keys(p.Pending))
		maps.Copy(p.Accepted, p.Pending)
		p.Pending = nil
		return len(tools) > 0
	})
	return tools, err
}

// change edits the pins of a server under a lock that other processes respect.
func (s *Store) change(server string, edit func(*pins) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	lock, err := os.OpenFile(filepath.Join(s.dir, "pins", ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	var p pins
	if err := s.read(s.file("pins", server), &p); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the accepted tool definitions of %s cannot be read: %w", server, err)
	}
	if p.Accepted == nil {
		p.Accepted = map[string]string{}
	}
	if p.Pending == nil {
		p.Pending = map[string]string{}
	}
	if !edit(&p) {
		return nil
	}
	return s.write(s.file("pins", server), p)
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

// Fingerprint is the hash of a tool definition, whatever the order of its keys.
func Fingerprint(definition []byte) string {
	var v any
	dec := json.NewDecoder(bytes.NewReader(definition))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		v = string(definition)
	}
	canonical, _ := json.Marshal(v)
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

package pins

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
	"syscall"

	"github.com/sallyport-dev/sallyport/internal/strictjson"
)

// pins are the definitions of one server's tools by their hashes.
type pins struct {
	Accepted map[string]string `json:"accepted"`
	Pending  map[string]string `json:"pending,omitempty"` // withheld
}

// maxPins and maxName bound what is remembered of a server that invents a name
// with each look: beyond them, new tools are withheld and cannot be accepted.
const maxPins, maxName = 20000, 256

// maxKept bounds the definitions that are kept of one server, in bytes.
const maxKept = 32 << 20

// Pin compares tool definitions (by name) with the accepted ones. What is new
// is accepted at first sight; the names of changed ones are returned and stay
// withheld until Accept. With sole the listing is that of the server's only
// process, and an accepted definition that is back ends the wait; else another
// process may still have the changed one.
func (s *Store) Pin(server string, seen map[string]json.RawMessage, sole bool) (changed []string, err error) {
	texts := map[string]json.RawMessage{}
	err = s.change(server, texts, func(p *pins) bool {
		before := len(p.Accepted)
		wait := maps.Clone(p.Pending)
		for tool, definition := range seen {
			hash := Fingerprint(definition)
			texts[hash] = definition
			if p.Accepted[tool] == "" && len(p.Accepted) < maxPins && len(tool) <= maxName {
				p.Accepted[tool] = hash
			}
			if p.Accepted[tool] == hash {
				if sole {
					delete(p.Pending, tool)
				}
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

// keep stores the definitions of all pins, so that the owner can compare them.
func (s *Store) keep(server string, p *pins, texts map[string]json.RawMessage) error {
	kept, size := map[string]json.RawMessage{}, 0
	old := s.definitions(server)
	for _, of := range []map[string]string{p.Pending, p.Accepted} {
		for _, hash := range of {
			text := old[hash]
			if text == nil {
				text = texts[hash]
			}
			if size += len(text); text != nil && size <= maxKept {
				kept[hash] = text
			}
		}
	}
	return s.write(s.file("definitions", server), kept)
}

// definitions are those that were kept, by their hashes. What cannot be read is
// lost, and shown as unknown.
func (s *Store) definitions(server string) (kept map[string]json.RawMessage) {
	_ = s.read(s.file("definitions", server), &kept)
	return kept
}

// Pinned reports whether anything of this server was ever accepted.
// A pin file that cannot be read counts as pinned (fail closed).
func (s *Store) Pinned(server string) bool {
	_, err := os.Stat(s.file("pins", server))
	return !errors.Is(err, fs.ErrNotExist)
}

// waiting is what a file of pins said, and which file that was.
type waiting struct {
	file  os.FileInfo
	tools []string
}

// Pending names the withheld tools of a server. The caller must not change the
// list. It is asked before each call, so a file that has not changed is not read
// again: each edit puts a new one in its place.
func (s *Store) Pending(server string) []string {
	file := s.file("pins", server)
	info, err := os.Stat(file)
	if err != nil {
		info = nil
	}
	s.mu.Lock()
	last := s.waiting[server]
	s.mu.Unlock()
	if info != nil && last.file != nil && os.SameFile(info, last.file) && info.Size() == last.file.Size() &&
		info.ModTime().Equal(last.file.ModTime()) {
		return last.tools
	}
	var p pins
	_ = s.read(file, &p) // without any there are none
	list := slices.Sorted(maps.Keys(p.Pending))
	s.mu.Lock()
	s.waiting[server] = waiting{info, list}
	s.mu.Unlock()
	return list
}

// Change is a withheld definition beside the accepted one. What was not kept
// is nil.
type Change struct {
	Tool     string
	Old, New json.RawMessage
}

// Accept lists what is withheld of a server, with the sum that stands for all
// of it, to the last character. If that is sum, it is accepted: never anything
// that came after the owner looked.
func Accept(dir, server, sum string) (list []Change, now string, err error) {
	s := &Store{dir: dir}
	err = s.change(server, nil, func(p *pins) bool {
		texts := s.definitions(server)
		for _, tool := range slices.Sorted(maps.Keys(p.Pending)) {
			list = append(list, Change{tool, texts[p.Accepted[tool]], texts[p.Pending[tool]]})
		}
		canonical, _ := json.Marshal(p.Pending)
		now = Fingerprint(canonical)
		if len(list) == 0 || now != sum {
			return false
		}
		maps.Copy(p.Accepted, p.Pending)
		p.Pending = nil
		return true
	})
	return list, now, err
}

// change edits the pins of a server under a lock that other processes respect,
// and of that server only: one with much to write holds up no other.
func (s *Store) change(server string, texts map[string]json.RawMessage, edit func(*pins) bool) error {
	lock, err := os.OpenFile(filepath.Join(s.dir, "pins", "."+server+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
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
	if err := s.keep(server, &p, texts); err != nil {
		return err
	}
	defer s.forget(server)
	return s.write(s.file("pins", server), p)
}

// forget makes Pending read the file again, whatever its time says.
func (s *Store) forget(server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, server)
}

// Fingerprint is the hash of a tool definition, whatever the order of its keys. One
// that two readers may understand differently, for a key that is there twice or text
// that is none, is taken by its bytes: what is not hashed could change unseen.
func Fingerprint(definition []byte) string {
	var v any
	dec := json.NewDecoder(bytes.NewReader(definition))
	dec.UseNumber()
	if strictjson.Into(definition, new(any)) != nil || dec.Decode(&v) != nil {
		v = definition
	}
	canonical, _ := json.Marshal(v)
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

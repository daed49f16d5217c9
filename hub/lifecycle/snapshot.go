package lifecycle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/sallyport-dev/sallyport/hub/pins"
)

// snapshot is what the server said about itself.
func (s *Server) snapshot() pins.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap := s.snap
	snap.Init, snap.ToolsFor = maps.Clone(snap.Init), maps.Clone(snap.ToolsFor)
	return snap
}

// remember keeps one of the snapshot's answers, if it is news.
func (s *Server) remember(at func(*pins.Snapshot) *json.RawMessage, said []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if to := at(&s.snap); !bytes.Equal(*to, said) {
		*to = said
		s.save(func() { *to = nil })
	}
}

// save writes the snapshot, without its newest answer where that finds no room.
// Needs mu.
func (s *Server) save(without func()) {
	if s.Gone() { // the file is its successor's
		return
	}
	err := s.cfg.Store.Save(s.cfg.Name, s.snap)
	if errors.Is(err, pins.ErrRoom) {
		s.cfg.Log.Warn("an answer is too long to be remembered: the server is woken for it each time")
		without()
		s.crowded = true
		err = s.cfg.Store.Save(s.cfg.Name, s.snap)
	}
	if err != nil {
		s.cfg.Log.Error("the snapshot could not be kept", "error", err)
	}
}

// unlisted is why the tools could not be listed, or nil.
func (ch *channel) unlisted() error {
	ch.list.Lock()
	defer ch.list.Unlock()
	if ch.failed == nil {
		return nil
	}
	return fmt.Errorf("the tools of %s could not be listed: %w", ch.server.cfg.Name, ch.failed)
}

// tooLong says why there is no list of tools, where it is for its length.
func (s *Server) tooLong() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.crowded {
		return nil
	}
	return fmt.Errorf("the list of tools of %s is too long to be kept (%d MiB, and %d for all servers together): "+
		"ask the server itself, at its own path", s.cfg.Name, pins.MaxAnswer>>20, pins.MaxServers>>20)
}

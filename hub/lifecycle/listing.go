package lifecycle

import (
	"encoding/json"
	"slices"

	"github.com/sallyport-dev/sallyport/hub/pins"
)

// pin compares a listing with the accepted definitions and names the tools that
// changed.
func (s *Server) pin(all [][]byte) (changed []string, err error) {
	seen := map[string]json.RawMessage{}
	for _, raw := range all {
		name, _ := describe(raw)
		seen[name] = raw
	}
	s.mu.Lock()
	sole := len(s.channels) <= 1
	s.mu.Unlock()
	return s.cfg.Store.Pin(s.cfg.Name, seen, sole)
}

// double notes the tools that a complete listing names twice. They are said in
// the server's status.
func (s *Server) double(twins []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(twins) > 0 && !slices.Equal(s.twins, twins) {
		s.cfg.Log.Warn("tools are listed twice with different definitions: they are withheld", "tools", twins)
	}
	s.twins = twins
}

// doubled are the tools that the last complete listing named twice.
func (s *Server) doubled() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.twins
}

// distinct leaves out what is listed once more, word for word or in another
// order of its keys, and all tools of a name that has two definitions: the hub
// would compare one, and a client call the other.
func distinct(all [][]byte) (list [][]byte, twins []string) {
	prints := map[string]string{}
	for _, raw := range all {
		name, _ := describe(raw)
		sum := pins.Fingerprint(raw)
		switch before, known := prints[name]; {
		case !known:
			prints[name] = sum
			list = append(list, raw)
		case before != sum && !slices.Contains(twins, name):
			twins = append(twins, name)
		}
	}
	slices.Sort(twins)
	return slices.DeleteFunc(list, func(raw []byte) bool {
		name, _ := describe(raw)
		return slices.Contains(twins, name)
	}), twins
}

package session

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Info is an open session as the owner sees it.
type Info struct {
	Name      string    `json:"id"`
	Principal string    `json:"principal"`
	Requests  int       `json:"requests"` // open right now
	Last      time.Time `json:"last"`     // when the last one ended
}

// Name is what records and lists call the session with this id: 12 hex digits
// of its SHA-256, since the id itself is what its client proves itself with.
// The stateless protocol has no id and no name.
func Name(id string) string {
	if id == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:6])
}

// List returns the sessions that have an id, in no order.
func (t *Table) List() (list []Info) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, s := range t.byID {
		list = append(list, Info{Name(id), s.principal, s.open, s.last})
	}
	return list
}

// Drop ends the session of this name. It is false if there is none.
func (t *Table) Drop(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, s := range t.byID {
		if Name(id) == name {
			s.drop()
			return true
		}
	}
	return false
}

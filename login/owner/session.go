package owner

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"sync"
	"time"
)

// Session is one browser of the owner's. Only who proved to be the owner gets one, so
// there is none to fix beforehand. They live in memory: a restart asks again.
type Session struct {
	CSRF  string
	Setup bool // came by the one-time code: may only set the first password or passkey
	Began time.Time

	mu    sync.Mutex
	shown map[string]any
}

const (
	sessionLife = 8 * time.Hour
	maxSessions = 100
	maxShown    = 20
)

// Sessions are those that are signed in.
type Sessions struct {
	mu  sync.Mutex
	all map[[32]byte]*Session
}

// New begins a session and returns the cookie's value.
func (s *Sessions) New(setup bool, now time.Time) string {
	id := rand.Text() + rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	var oldest [32]byte
	for key, one := range s.all {
		if one.over(now) {
			delete(s.all, key)
		} else if s.all[oldest] == nil || one.Began.Before(s.all[oldest].Began) {
			oldest = key
		}
	}
	if s.all == nil {
		s.all = map[[32]byte]*Session{}
	} else if len(s.all) >= maxSessions {
		delete(s.all, oldest)
	}
	s.all[sha256.Sum256([]byte(id))] = &Session{CSRF: rand.Text(), Setup: setup, Began: now, shown: map[string]any{}}
	return id
}

func (s *Session) over(now time.Time) bool {
	return now.Sub(s.Began) > sessionLife || s.Setup && now.Sub(s.Began) > CodeLife
}

// Find returns the session of a cookie's value, or nil.
func (s *Sessions) Find(cookie string, now time.Time) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.all[sha256.Sum256([]byte(cookie))]; one != nil && !one.over(now) {
		return one
	}
	return nil
}

// End ends the session of a cookie's value, or with others all except that one.
func (s *Sessions) End(cookie string, others bool) {
	own := sha256.Sum256([]byte(cookie))
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.all {
		if (id == own) != others {
			delete(s.all, id)
		}
	}
}

// Keep remembers what a page showed, and returns its id.
func (s *Session) Keep(shown any) string {
	id := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.shown) >= maxShown {
		clear(s.shown)
	}
	s.shown[id] = shown
	return id
}

// Shown returns what was kept; with take, it is forgotten.
func (s *Session) Shown(id string, take bool) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	shown := s.shown[id]
	if take {
		delete(s.shown, id)
	}
	return shown
}

// Sign appends a MAC to text, for one purpose. Opened is the text again, or "".
func Sign(key []byte, purpose, text string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(purpose + "\x00" + text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Opened returns the text that Sign signed for the purpose, or "".
func Opened(key []byte, purpose, signed string) string {
	text := signed[:max(0, strings.LastIndexByte(signed, '.'))]
	if !hmac.Equal([]byte(signed), []byte(Sign(key, purpose, text))) {
		return ""
	}
	return text
}

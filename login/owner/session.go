package owner

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"time"
)

// Session is one browser of the owner's. Only who proved to be the owner gets one, so
// there is none to fix beforehand. They live in memory: a restart asks again.
type Session struct {
	CSRF  string
	Setup bool // came by the one-time code: may only set the first password or passkey
	Began time.Time
	Shown Memory[any] // what its pages showed
}

const (
	sessionLife = 8 * time.Hour
	maxSessions = 100
	maxShown    = 20
)

// Sessions are those that are signed in.
type Sessions struct{ Memory[*Session] }

// New begins a session and returns the cookie's value.
func (s *Sessions) New(setup bool, now time.Time) string {
	life := sessionLife
	if setup {
		life = CodeLife
	}
	return s.Keep(&Session{CSRF: rand.Text(), Setup: setup, Began: now}, maxSessions, now, now.Add(life))
}

// Show remembers what a page showed, and returns its id.
func (s *Session) Show(shown any, now time.Time) string {
	return s.Shown.Keep(shown, maxShown, now, now.Add(sessionLife))
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

package owner

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"slices"
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
	life := map[bool]time.Duration{false: sessionLife, true: CodeLife}[setup]
	return s.Keep(&Session{CSRF: rand.Text(), Setup: setup, Began: now}, maxSessions, now, now.Add(life))
}

// Show remembers what a page showed, and returns its id.
func (s *Session) Show(shown any, now time.Time) string {
	return s.Shown.Keep(shown, maxShown, now, now.Add(sessionLife))
}

// Memory keeps values under secrets that it makes, as hashes, until they are too old. A
// restart forgets them.
type Memory[T any] struct {
	mu  sync.Mutex
	all map[[32]byte]kept[T]
}

type kept[T any] struct {
	value       T
	made, until time.Time
}

// Keep returns the secret of a value. Where there are most of them, the oldest is forgotten.
func (m *Memory[T]) Keep(value T, most int, now, until time.Time) string {
	secret := rand.Text() + rand.Text()
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.all, func(_ [32]byte, one kept[T]) bool { return now.After(one.until) })
	if m.all == nil {
		m.all = map[[32]byte]kept[T]{}
	} else if len(m.all) >= most {
		older := func(a, b [32]byte) int { return m.all[a].made.Compare(m.all[b].made) }
		delete(m.all, slices.MinFunc(slices.Collect(maps.Keys(m.all)), older))
	}
	m.all[sha256.Sum256([]byte(secret))] = kept[T]{value, now, until}
	return secret
}

// Find returns the value of a secret, or nothing of it.
func (m *Memory[T]) Find(secret string, now time.Time) (value T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if one, ok := m.all[sha256.Sum256([]byte(secret))]; ok && !now.After(one.until) {
		return one.value
	}
	return value
}

// End forgets the value of a secret, or with others all except that one. It reports
// whether the secret had one.
func (m *Memory[T]) End(secret string, others bool) (found bool) {
	own := sha256.Sum256([]byte(secret))
	m.mu.Lock()
	defer m.mu.Unlock()
	_, found = m.all[own]
	maps.DeleteFunc(m.all, func(id [32]byte, _ kept[T]) bool { return (id == own) != others })
	return found
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

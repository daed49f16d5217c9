package owner

import (
	"crypto/rand"
	"crypto/sha256"
	"maps"
	"slices"
	"sync"
	"time"
)

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

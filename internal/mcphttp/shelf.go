package mcphttp

import (
	"math"
	"sync"
	"sync/atomic"
)

// maxShelfBytes is what may wait in the streams of all sessions together, with what is
// being written there. Above it the stream ends whose client has taken nothing for
// longest: one client may open many and read none.
const maxShelfBytes = 64 << 20

// shelf counts what waits in the streams of all sessions.
type shelf struct {
	bytes    atomic.Int64
	turns    atomic.Uint64 // messages taken so far
	relieve  func()        // ends streams until there is room
	relieved sync.Mutex
}

// note keeps the shelf's count. moved says that somebody takes what waits. b.mu is held.
func (b *outbox) note(moved bool) {
	if b.shelf == nil {
		return
	}
	b.shelf.bytes.Add(int64(b.bytes + b.writing - b.noted))
	if moved || b.noted == 0 {
		b.since = b.shelf.turns.Add(1)
	}
	b.noted = b.bytes + b.writing
}

// clear drops what waits, also what is being written, and ends the stream. b.mu is held.
func (b *outbox) clear() {
	b.full, b.list, b.bytes, b.writing = true, nil, 0, 0
	if b.stream != nil {
		b.stream.Cut()
	}
	b.note(true)
	b.signal()
}

// forget drops what nobody will read any more.
func (b *outbox) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reader == nil {
		b.clear()
	}
}

// relieve ends the streams that stand still for longest, until there is room.
func (f *Front) relieve() {
	f.shelf.relieved.Lock()
	defer f.shelf.relieved.Unlock()
	for f.shelf.bytes.Load() > maxShelfBytes {
		var longest *outbox
		least := uint64(math.MaxUint64)
		f.live.Range(func(_, v any) bool {
			b := v.(*clientSession).general
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.noted > 0 && b.since < least {
				longest, least = b, b.since
			}
			return true
		})
		if longest == nil {
			return
		}
		longest.mu.Lock()
		if longest.since == least { // else it has moved meanwhile
			longest.clear()
		}
		longest.mu.Unlock()
	}
}

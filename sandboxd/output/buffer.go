// Package output keeps what a command writes: bounded in memory, valid UTF-8
// and bounded in JSON whatever the bytes were, with the beginning and the end
// of a stream that is too long.
package output

import (
	"fmt"
	"sync"
	"unicode/utf8"
)

// markRoom is kept free for the line that says how much was left out.
const markRoom = 64

// Buffer keeps the beginning and the end of one output stream, half of its
// limit each. Every byte has its offset from the stream's start, so that what
// is kept can be read in pages while it grows. It is safe for concurrent use.
type Buffer struct {
	mu    sync.Mutex
	limit int
	head  []byte // the first bytes
	tail  []byte // ring of the last bytes behind head
	at    int    // where the ring continues, once it is full
	total int64  // bytes ever written
}

// New returns a Buffer that keeps at most limit bytes; 256 is the least that
// makes sense.
func New(limit int) *Buffer { return &Buffer{limit: limit} }

// Write takes all of p and never fails: the command must not feel the limit.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, half := len(p), b.limit/2
	b.total += int64(n)
	k := min(len(p), half-len(b.head))
	b.head, p = append(b.head, p[:k]...), p[k:]
	p = p[max(0, len(p)-half):]
	k = min(len(p), half-len(b.tail))
	b.tail, p = append(b.tail, p[:k]...), p[k:]
	for len(p) > 0 {
		k = copy(b.tail[b.at:], p)
		b.at, p = (b.at+k)%half, p[k:]
	}
	return n, nil
}

// Size is how many bytes were ever written.
func (b *Buffer) Size() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total
}

// parts returns copies of what is kept, and the offset of the second.
func (b *Buffer) parts() (head, tail []byte, tailAt int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	head = append(head, b.head...)
	tail = append(append(tail, b.tail[b.at:]...), b.tail[:b.at]...)
	return head, tail, b.total - int64(len(tail))
}

// Text is the stream as valid UTF-8, at most limit bytes long and twice that
// once encoded as JSON, whatever the bytes were. What is left out is left out
// of the middle, and said there.
func (b *Buffer) Text() (text string, truncated bool) {
	head, tail, tailAt := b.parts()
	gap := tailAt - int64(len(head))
	if gap == 0 {
		all := append(head, tail...)
		if text, used := fit(all, b.limit, 2*b.limit); used == len(all) {
			return text, false
		}
		head, tail = all[:len(all)/2], all[len(all)/2:]
	}
	room := (b.limit - markRoom) / 2
	begin, used := fit(head[:wholeRunes(head)], room, 2*room)
	end, dropped := fitEnd(tail, room, 2*room)
	left := gap + int64(len(head)-used) + int64(dropped)
	return fmt.Sprintf("%s\n[… %d bytes left out …]\n%s", begin, left, end), true
}

// Page returns what follows offset from, at most limit bytes of text, where the
// next page begins, and how many bytes before this page are no longer kept. A
// rune that is still incomplete is left for later unless the stream has ended.
func (b *Buffer) Page(from int64, limit int, ended bool) (text string, next, skipped int64) {
	head, tail, tailAt := b.parts()
	data := []byte(nil)
	switch {
	case from < int64(len(head)):
		data = head[from:]
		if tailAt == int64(len(head)) {
			data = append(data, tail...)
		} else {
			ended = true // nothing that is kept completes its last rune
		}
	case from < tailAt:
		skipped, from, data = tailAt-from, tailAt, tail
	default:
		data = tail[min(from-tailAt, int64(len(tail))):]
	}
	if !ended {
		data = data[:wholeRunes(data)]
	}
	text, used := fit(data, limit, 2*limit)
	return text, from + int64(used), skipped
}

// wholeRunes is len(data) without a rune that is cut off at its end.
func wholeRunes(data []byte) int {
	for i := len(data) - 1; i >= 0 && i >= len(data)-utf8.UTFMax; i-- {
		if utf8.RuneStart(data[i]) {
			if utf8.FullRune(data[i:]) {
				return len(data)
			}
			return i
		}
	}
	return len(data)
}

package mcphttp

import (
	"context"
	"net/http"
	"sync"

	"github.com/sallyport-dev/sallyport/internal/httpd"
)

// What may wait for one client. A stream that is full ends: dropping single
// messages would leave the client with a conversation that has holes. While
// nobody reads, which is allowed, the newest messages are kept.
const (
	maxWaiting      = 1000
	maxWaitingBytes = 20 << 20
	maxBacklog      = 100
	maxBacklogBytes = 1 << 20
)

// outbox is the queue of one stream towards a client.
type outbox struct {
	mu     sync.Mutex
	list   [][]byte
	bytes  int
	final  bool // the last message is in, or was taken out
	full   bool
	failed error // why the request could not be served at all
	ready  chan struct{}
	soon   bool          // somebody is about to read
	reader chan struct{} // of who reads now; closed when another takes over
	stream *httpd.Stream // what it writes to; may be nil

	shelf   *shelf // nil for an answer's own
	writing int    // bytes that were taken last and may not be written yet
	noted   int    // bytes that it has counted
	since   uint64 // its turn when something was taken last, or began to wait
}

// newOutbox makes a queue that somebody is about to read, or perhaps later.
func newOutbox(soon bool) *outbox { return &outbox{ready: make(chan struct{}, 1), soon: soon} }

// Deliver implements Sink.
func (b *outbox) Deliver(raw []byte, final bool) {
	b.deliver(raw, final)
	if s := b.shelf; s != nil && s.bytes.Load() > maxShelfBytes {
		s.relieve()
	}
}

func (b *outbox) deliver(raw []byte, final bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.final || b.full {
		return
	}
	if raw != nil {
		b.bytes += len(raw)
		b.list = append(b.list, raw)
	}
	b.final = final
	for b.reader == nil && !b.soon && (len(b.list) > maxBacklog || b.bytes > maxBacklogBytes) {
		b.bytes -= len(b.list[0])
		b.list = b.list[1:]
	}
	if len(b.list) > maxWaiting || b.bytes > maxWaitingBytes {
		b.full, b.list, b.bytes = true, nil, 0
	}
	b.note(false)
	b.signal()
}

func (b *outbox) signal() {
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// fail notes why the request that is answered next was never passed on.
func (b *outbox) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed = err
}

// next waits for a message. ok is false at the end of the stream, which comes
// after all that was delivered before it: when the client leaves, the session ends
// or another reader takes over. Any of the three may be nil.
func (b *outbox) next(client, session, other <-chan struct{}) (raw []byte, last, ok bool) {
	for ended := false; ; {
		b.mu.Lock()
		if b.full {
			b.mu.Unlock()
			return nil, true, false
		}
		if len(b.list) > 0 {
			raw = b.list[0]
			b.list, b.bytes, b.writing = b.list[1:], b.bytes-len(raw), len(raw)
			b.note(true)
			last = b.final && len(b.list) == 0
			b.mu.Unlock()
			return raw, last, true
		}
		ended = ended || b.final
		b.wrote()
		b.mu.Unlock()
		if ended {
			return nil, true, false
		}
		select {
		case <-b.ready:
		case <-client:
			ended = true
		case <-session:
			ended = true
		case <-other:
			ended = true
		}
	}
}

// wrote notes that what was taken is written, or given up. b.mu is held.
func (b *outbox) wrote() {
	if b.writing > 0 {
		b.writing = 0
		b.note(true)
	}
}

// failure is why the request was never passed on, or nil.
func (b *outbox) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed
}

// canceled reports a queue that ended without another message.
func (b *outbox) canceled() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.final && len(b.list) == 0
}

// take makes the caller the reader, in place of an older one. After an overflow
// it begins anew.
func (b *outbox) take(stream *httpd.Stream) (mine chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reader != nil {
		close(b.reader)
	}
	b.reader, b.stream, b.full = make(chan struct{}), stream, false
	return b.reader
}

// drain writes to a stream until the client leaves, the session ends or a newer
// reader takes over.
func (b *outbox) drain(w http.ResponseWriter, client, session context.Context) {
	mine := b.take(httpd.StreamFrom(client))
	_ = http.NewResponseController(w).Flush() // not before: what comes from now on is the client's
	for {
		raw, _, ok := b.next(client.Done(), session.Done(), mine)
		select {
		case <-mine:
			if ok {
				b.putBack(raw)
			}
			return
		default:
		}
		if !ok || emit(w, "message", raw) != nil {
			break
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reader == mine {
		b.wrote()
		if b.reader, b.stream, b.soon = nil, nil, false; session.Err() != nil {
			b.clear()
		}
	}
}

func (b *outbox) putBack(raw []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list, b.bytes, b.writing = append([][]byte{raw}, b.list...), b.bytes+len(raw), 0
	b.note(false)
	b.signal()
}

func eventStream(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache, no-transform")
}

// event is one server-sent event. JSON holds no line break.
func event(name string, data []byte) []byte {
	buf := make([]byte, 0, len(data)+32)
	return append(append(append(buf, "event: "+name+"\ndata: "...), data...), "\n\n"...)
}

// emit writes one event in one write, so that no comment comes between.
func emit(w http.ResponseWriter, name string, data []byte) error {
	if _, err := w.Write(event(name, data)); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

package desk

import "time"

// An Event is something that the owner may want to see at once. It holds no
// arguments.
type Event struct {
	Kind      string    `json:"kind"` // waiting, decided, begin, end, refused, stopped, paused, resumed
	Time      time.Time `json:"time"`
	ID        string    `json:"id,omitempty"`
	Principal string    `json:"principal,omitempty"`
	Server    string    `json:"server,omitempty"`
	Tool      string    `json:"tool,omitempty"`
	Verdict   string    `json:"verdict,omitempty"`
}

// maxWatchers bounds who may listen at once.
const maxWatchers = 32

// Watch returns a channel of events and a function that ends it. A watcher that
// falls behind misses events, never holds a call up. With too many watchers the
// channel is nil.
func (d *Desk) Watch() (events <-chan Event, stop func()) {
	ch := make(chan Event, 256)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.watchers) >= maxWatchers {
		return nil, func() {}
	}
	d.watchers[ch] = struct{}{}
	return ch, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.watchers, ch)
	}
}

func (d *Desk) publish(e Event) {
	e.Time = time.Now().UTC()
	d.mu.Lock()
	defer d.mu.Unlock()
	for ch := range d.watchers {
		select {
		case ch <- e:
		default:
		}
	}
}

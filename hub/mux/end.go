package mux

import (
	"time"

	"github.com/sallyport-dev/sallyport/hub/upstream"
)

// Err is why the link is over, or takes no further call, or nil.
func (l *Link) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over()
}

// over is Err. Needs mu.
func (l *Link) over() error {
	if l.err == nil && l.retired {
		return upstream.ErrClosed
	}
	return l.err
}

// Retire makes an idle link take no further call, so that closing it loses
// none. It reports false where calls run, or somebody else was first.
func (l *Link) Retire() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) > 0 || l.err != nil || l.retired {
		return false
	}
	l.retired = true
	return true
}

// Noise is how many lines of the server were not JSON-RPC.
func (l *Link) Noise() int64 { return l.noise.Load() }

// Idle is how long nothing has happened; 0 while calls run, and once it is over.
func (l *Link) Idle() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) > 0 || l.over() != nil {
		return 0
	}
	return time.Since(l.active)
}

// Wait returns when the connection is over and closed.
func (l *Link) Wait() { <-l.done }

// End fails all calls for a reason that is not the server's own. Close must
// follow.
func (l *Link) End(reason error) { l.end(reason) }

// Close ends the connection and waits for the end.
func (l *Link) Close() {
	l.end(upstream.ErrClosed)
	l.conn.Close()
	<-l.done
}

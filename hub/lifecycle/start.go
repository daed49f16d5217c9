package lifecycle

import (
	"context"

	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
)

// start is a process on its way for one session. Where its client leaves before
// it is there, the next client with the same initialize gets it: a client
// that gives up after seconds and tries again would else start one each time.
type start struct {
	done chan struct{}
	ch   *channel
	err  error
}

// begin opens a channel for a session, or takes over a start that was left.
func (s *Server) begin(ctx context.Context, hello *jsonrpc.Message) (*channel, error) {
	key := string(hello.Bytes(hello.Params()))
	b := s.adopt(key)
	if b == nil {
		b = &start{done: make(chan struct{})}
		go func() {
			defer close(b.done)
			b.ch, b.err = s.open(context.WithoutCancel(ctx), hello)
		}()
	}
	select {
	case <-b.done:
		return b.ch, b.err
	case <-ctx.Done():
		s.leave(key, b)
		return nil, ctx.Err()
	}
}

// adopt takes a start that was left, if there is one that may still succeed.
func (s *Server) adopt(key string) *start {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.left[key]
	delete(s.left, key)
	if b == nil {
		return nil
	}
	select {
	case <-b.done:
		if b.err != nil || b.ch.Err() != nil {
			return nil
		}
	default:
	}
	return b
}

// leave keeps a start that nobody waits for, one of a server at a time; the
// process of an older one ends.
func (s *Server) leave(key string, b *start) {
	s.mu.Lock()
	old := s.left
	s.left = map[string]*start{key: b}
	s.mu.Unlock()
	for _, o := range old {
		go func() {
			if <-o.done; o.err == nil {
				s.end(o.ch)
			}
		}()
	}
}

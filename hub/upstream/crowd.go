package upstream

import (
	"errors"
	"io"
	"sync/atomic"
)

// What unfinished messages of all servers may take together, in bytes, beside
// freeShare of each. A server that begins long ones and never ends them takes no more.
const (
	maxUnfinished = 128 << 20
	freeShare     = 1 << 20
)

// ErrCrowded ends a connection whose long message finds no room beside those of
// others.
var ErrCrowded = errors.New("the server's message is long, and 128 MiB of unfinished ones wait already: " +
	"its connection was ended")

var unfinished atomic.Int64 // bytes that are taken

// share is what one unfinished message takes.
type share struct{ size, taken int }

// add takes room for n more bytes.
func (s *share) add(n int) error {
	s.size += n
	more := max(s.size-freeShare, 0) - s.taken
	if more == 0 {
		return nil
	}
	if unfinished.Add(int64(more)) > maxUnfinished {
		unfinished.Add(-int64(more))
		return ErrCrowded
	}
	s.taken += more
	return nil
}

// done gives it back: the message is whole, or given up.
func (s *share) done() {
	unfinished.Add(-int64(s.taken))
	*s = share{}
}

// within reads what counts as one unfinished message.
func (s *share) within(r io.Reader) io.Reader { return counted{r, s} }

type counted struct {
	io.Reader
	share *share
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if crowded := c.share.add(n); crowded != nil {
		return n, crowded
	}
	return n, err
}

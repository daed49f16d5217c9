package upstream

import (
	"errors"
	"io"
	"testing"
	"time"
)

type deaf struct{}

func (deaf) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// A server that ends makes the next write fail; what it ended of is the reason,
// as long as it says so soon.
func TestTheServersOwnEndIsTheReason(t *testing.T) {
	in, server := io.Pipe()
	read := make(chan struct{}) // soon is before that, however busy the machine
	l := newLines(in, deaf{}, func() error { <-read; return in.CloseWithError(ErrClosed) })
	defer l.Close()
	defer close(read)
	if err := l.Send(Outgoing{Raw: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	for l.Send(Outgoing{Raw: []byte("{}")}) == nil { // until the write has failed
		time.Sleep(time.Millisecond)
	}
	server.CloseWithError(ErrRenewed)
	if _, err := l.Receive(); !errors.Is(err, ErrRenewed) {
		t.Errorf("the reason is %v", err)
	}
}

// One that takes no more input and says nothing has ended as well.
func TestAFailedWriteEndsTheConnection(t *testing.T) {
	in, _ := io.Pipe()
	l := newLines(in, deaf{}, func() error { return in.CloseWithError(ErrClosed) })
	if err := l.Send(Outgoing{Raw: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Receive(); err == nil || err.Error() != "broken pipe" {
		t.Errorf("the reason is %v", err)
	}
}

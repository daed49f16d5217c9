package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
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

// What a pipe does not take at once waits for the writer, and nothing that is sent
// meanwhile passes it: every message arrives once, whole, and in its sender's order.
func TestMessagesKeepTheirOrder(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	never, _ := io.Pipe()
	l := newLines(never, w, w.Close)
	const senders, each = 4, 500
	fill := bytes.Repeat([]byte("x"), 5000) // a pipe holds a dozen of them
	var wait sync.WaitGroup
	for sender := range senders {
		wait.Go(func() {
			for i := range each {
				if err := l.Send(Outgoing{Raw: fmt.Appendf(nil, "%d %d %s", sender, i, fill[:i*10])}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	in, next := bufio.NewReader(r), [senders]int{}
	for range senders * each {
		line, err := in.ReadString('\n')
		var sender, i int
		var rest string
		if _, scan := fmt.Sscan(line, &sender, &i, &rest); err != nil || (scan != nil && i > 0) || i != next[sender] ||
			len(rest) != i*10 {
			t.Fatalf("%.40q (%d bytes, %v) where %d was due", line, len(line), err, next[sender])
		}
		next[sender]++
	}
	wait.Wait()
	l.Close()
	if rest, err := io.ReadAll(in); len(rest) > 0 || err != nil {
		t.Errorf("%d bytes more, %v", len(rest), err)
	}
}

package doctor

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"
)

// closing is a connection whose other end has closed it before anything is written.
type closing struct {
	net.Conn
	seen chan struct{}
	once sync.Once
}

func (c *closing) Read([]byte) (int, error) {
	c.once.Do(func() { close(c.seen) })
	return 0, io.EOF
}

func (c *closing) Write(p []byte) (int, error) {
	<-c.seen
	time.Sleep(20 * time.Millisecond) // net/http has seen it by then, or says EOF: both count
	return 0, syscall.EPIPE
}

// Docker's proxy may drop a connection before, while or after the request is written.
func TestDroppedAtOnce(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	client := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return &closing{Conn: ours, seen: make(chan struct{})}, nil
	}}}
	_, err := client.Get("http://127.0.0.1:1/")
	if !dropped(err) {
		t.Errorf("before: %v", err)
	}
	if _, err := http.Get(serve(t, hangUp{})); !dropped(err) {
		t.Errorf("after: %v", err)
	}
	if dropped(nil) || dropped(syscall.ECONNREFUSED) {
		t.Error("twin: an answer, or nobody there, is a drop")
	}
}

package doctor

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"syscall"
	"testing"
)

// closing is a connection whose other end closes it before anything is written. noted is
// closed when net/http has seen that and closes it too.
type closing struct {
	net.Conn
	noted chan struct{}
	once  sync.Once
}

func (c *closing) Read([]byte) (int, error) { return 0, io.EOF }

func (c *closing) Close() error {
	c.once.Do(func() { close(c.noted) })
	return c.Conn.Close()
}

// Docker's proxy may drop a connection before, while or after the request is written.
func TestDroppedAtOnce(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	conn := &closing{Conn: ours, noted: make(chan struct{})}
	client := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}}
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		<-conn.noted // else the error is EOF
	}})
	req, err := http.NewRequestWithContext(ctx, "GET", "http://127.0.0.1:1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = client.Do(req); !dropped(err) {
		t.Errorf("before: %v", err)
	}
	if _, err := http.Get(serve(t, hangUp{})); !dropped(err) {
		t.Errorf("after: %v", err)
	}
	if dropped(nil) || dropped(syscall.ECONNREFUSED) {
		t.Error("twin: an answer, or nobody there, is a drop")
	}
}

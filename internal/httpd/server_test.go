package httpd_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/httpd"
)

// failing is a listener that fails as the kernel does, a few times.
type failing struct {
	net.Listener
	left atomic.Int64
}

func (l *failing) Accept() (net.Conn, error) {
	if l.left.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.ENOSPC}
	}
	return l.Listener.Accept()
}

// A command can use up what accepting a connection needs of the account. The
// server must outlive that.
func TestServeOutlivesAcceptErrors(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	broken := &failing{Listener: l}
	broken.left.Store(2)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	ended := make(chan error, 1)
	go func() {
		ended <- httpd.Serve(ctx, broken, hello, quiet, func() {})
		l.Close()
	}()
	resp, err := http.Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "hello" {
		t.Errorf("%q %v", body, err)
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("after its end: %v", err)
	}
}

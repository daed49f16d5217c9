package main_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// Programs close connections with bytes of the host unread, or end with them open.
// That is recorded as ok, and their callers read nothing of it. The twin: a host that
// breaks off is a failure.
func TestClosedByTheClient(t *testing.T) {
	closed := make(chan struct{}, 1)
	publish("stream.example", "93.184.215.10", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for chunk := make([]byte, 64<<10); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
			switch r.URL.Path {
			case "/reset": // closes with the client's last bytes unread
				conn, _, _ := w.(http.Hijacker).Hijack()
				conn.(*tls.Conn).CloseWrite()
				io.CopyN(io.Discard, conn.(*tls.Conn).NetConn(), 1)
				conn.Close()
				return
			case "/done":
				conn, _, _ := w.(http.Hijacker).Hijack()
				conn.Close()
				closed <- struct{}{}
				return
			case "/break":
				conn, _, _ := w.(http.Hijacker).Hijack()
				raw := conn.(*tls.Conn).NetConn()
				for next := raw; next != nil; { // through the log of the world
					if tcp, ok := next.(*net.TCPConn); ok {
						tcp.SetLinger(0)
						break
					}
					inner, ok := next.(interface{ Unwrap() net.Conn })
					if !ok {
						break
					}
					next = inner.Unwrap()
				}
				raw.Close()
				return
			}
		}
	}))
	e := start(t, "stream.example")
	c := e.command(t, "c1", "*")
	stream := func(path string) *tls.Conn {
		raw, _ := c.connect("stream.example:443")
		conn := tls.Client(raw, &tls.Config{RootCAs: world.ca.Pool(), ServerName: "stream.example"})
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: stream.example\r\n\r\n", path)
		if _, err := io.ReadFull(conn, make([]byte, 1000)); err != nil {
			t.Error(path, err)
		}
		return conn
	}
	verdicts := func(want ...string) {
		t.Helper()
		var got []string
		awaitThat(t, "the records", func() bool {
			got = nil
			for _, r := range e.records() {
				if r["kind"] == "end" {
					got = append(got, fmt.Sprint(r["verdict"]))
				}
			}
			return len(got) >= len(want)
		})
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("recorded %v, want %v", got, want)
		}
	}
	stream("/").NetConn().Close()
	verdicts("ok")
	conn := stream("/done") // what is said to a host that has ended is lost, as it is without egress
	io.Copy(io.Discard, conn)
	<-closed // what came before that would be left unread, and answered by a reset
	for range 20 {
		fmt.Fprint(conn, "GET / HTTP/1.1\r\n\r\n")
	}
	conn.Close()
	verdicts("ok", "ok")
	conn = stream("/reset")
	io.Copy(io.Discard, conn)
	conn.Close()
	verdicts("ok", "ok", "ok")
	conn = stream("/break")
	io.Copy(io.Discard, conn)
	conn.Close()
	verdicts("ok", "ok", "ok", "failed")
	if r := c.refusal(); r.Verdict != "failed" {
		t.Errorf("the caller reads %+v", r)
	}
	open := stream("/")
	defer open.Close()
	c.way.Close() // its command has ended
	verdicts("ok", "ok", "ok", "failed", "ok")
	select {
	case <-c.changed:
		t.Errorf("the caller reads %+v", c.refusal())
	case <-time.After(50 * time.Millisecond):
	}
}

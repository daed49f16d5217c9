package soak

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// linger opens connections as slow and broken clients do: half a request, a request
// byte by byte, a stream that nobody reads, one whose client is gone without a word.
func (w *world) linger(ctx context.Context) {
	addr := strings.TrimPrefix(w.chain.WebSecure, "https://")
	through := way{parts: []*part{w.traefik}}
	kinds := []string{"half requests", "requests byte by byte (slow loris)", "streams that nobody read", "half-open connections"}
	for n := 0; ctx.Err() == nil; n++ {
		since, _ := through.now()
		conn, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", addr, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			w.failed(through, since, "a slow client", err)
			pause(ctx, 100*time.Millisecond)
			continue
		}
		head := fmt.Sprintf("Host: %s\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n", addr, w.chain.Token)
		switch n % len(kinds) {
		case 0:
			fmt.Fprintf(conn, "POST /mcp-sandbox/mcp HTTP/1.1\r\n%sContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"json", head)
		case 1:
			for _, c := range "GET /mcp-sandbox/sse HTTP/1.1\r\nHost: " {
				fmt.Fprintf(conn, "%c", c)
				pause(ctx, 20*time.Millisecond)
			}
		case 2, 3:
			fmt.Fprintf(conn, "GET /mcp-sandbox/sse HTTP/1.1\r\n%s\r\n", head)
		}
		pause(ctx, time.Second)
		if n%len(kinds) == 3 {
			if err := vanish(conn); err != nil {
				w.t.Errorf("a half-open connection: %v", err)
			}
		} else {
			conn.Close()
		}
		w.count(kinds[n%len(kinds)])
	}
}

// vanish ends a connection without a FIN and without a RST, as a client that lost its
// network does (tcp(7): TCP_REPAIR).
func vanish(conn *tls.Conn) error {
	tcp := conn.NetConn().(*net.TCPConn)
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	var repair error
	if err := raw.Control(func(fd uintptr) {
		repair = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_REPAIR, unix.TCP_REPAIR_ON)
	}); err != nil {
		return err
	}
	if repair != nil {
		return repair
	}
	return tcp.Close()
}

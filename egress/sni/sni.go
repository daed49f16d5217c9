// Package sni reads the server name that a TLS client asks for, from its first
// message, without answering it.
package sni

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// maxHello bounds what is read before the ClientHello is whole, in bytes. The
// largest ones that clients send, with post-quantum key shares and a ticket,
// have a few thousand.
const maxHello = 64 << 10

// ErrNotTLS means that the first bytes are no ClientHello.
var ErrNotTLS = errors.New("the first bytes are no TLS ClientHello")

// Read reads from r until a ClientHello is whole, whatever records it is split
// into (RFC 8446 section 5.1), and returns the name in its server_name
// extension (RFC 6066 section 3), "" if there is none, and every byte that was
// read. Several names, repeated extensions and a dot at the end are ErrNotTLS.
//
// The parser is the standard library's: a server that understands the same
// bytes in another way than it does would have to break RFC 8446.
func Read(r io.Reader) (name string, raw []byte, err error) {
	c := &listener{r: r}
	seen := false
	server := tls.Server(c, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name, seen = h.ServerName, true
		return nil, errSeen
	}})
	err = server.Handshake()
	switch {
	case seen && c.read.Bytes()[0] == recordHandshake:
		return name, c.read.Bytes(), nil
	case c.failed != nil && !errors.Is(c.failed, io.EOF):
		return "", c.read.Bytes(), c.failed
	}
	return "", c.read.Bytes(), fmt.Errorf("%w (%v)", ErrNotTLS, err)
}

// recordHandshake is the content type of the first record: a client has
// nothing else to say first, though parsers let warnings pass.
const recordHandshake = 22

var errSeen = errors.New("seen")

// listener is a connection that only listens: what the handshake would answer
// is dropped.
type listener struct {
	r      io.Reader
	read   bytes.Buffer
	failed error
}

func (l *listener) Read(p []byte) (int, error) {
	left := maxHello - l.read.Len()
	if left <= 0 {
		return 0, ErrNotTLS
	}
	n, err := l.r.Read(p[:min(len(p), left)])
	l.read.Write(p[:n])
	if err != nil {
		l.failed = err
	}
	return n, err
}

func (l *listener) Write(p []byte) (int, error)      { return len(p), nil }
func (l *listener) Close() error                     { return nil }
func (l *listener) LocalAddr() net.Addr              { return &net.UnixAddr{} }
func (l *listener) RemoteAddr() net.Addr             { return &net.UnixAddr{} }
func (l *listener) SetDeadline(time.Time) error      { return nil }
func (l *listener) SetReadDeadline(time.Time) error  { return nil }
func (l *listener) SetWriteDeadline(time.Time) error { return nil }

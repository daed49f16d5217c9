package keysocket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"
)

// proofBound is how long either side waits for the other's first line.
const proofBound = 5 * time.Second

// ErrRefused is Dial's error when the server does not accept the key.
var ErrRefused = errors.New("the key is not the server's: both must read the same key file, once each has been " +
	"started again after it changed")

// ErrBusy is Dial's error when the server closes without an answer: it serves
// as many connections as it may, or ends.
var ErrBusy = errors.New("the server is busy or ends: try again in a moment")

// Dial connects to the socket at path and proves k. The connection is then the
// caller's, without a deadline.
func Dial(ctx context.Context, path string, k Key) (*net.UnixConn, error) {
	c, err := (&net.Dialer{Timeout: proofBound}).DialContext(ctx, "unix", path)
	// The queue of the socket is full, perhaps with clients that have no key.
	for begin := time.Now(); errors.Is(err, syscall.EAGAIN) && ctx.Err() == nil && time.Since(begin) < proofBound; {
		time.Sleep(time.Millisecond)
		c, err = (&net.Dialer{Timeout: proofBound}).DialContext(ctx, "unix", path)
	}
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })()
	if err := prove(c, k); err != nil {
		c.Close()
		return nil, fmt.Errorf("%s: %w", path, errors.Join(err, ctx.Err()))
	}
	if err := errors.Join(ctx.Err(), c.SetDeadline(time.Time{})); err != nil {
		c.Close()
		return nil, err
	}
	return c.(*net.UnixConn), nil
}

// RefusesStrangers reports, as an error, a socket at path that serves somebody
// who sends another key than its own: sockets that commands can reach are tried
// so at the start. The error is nil if it refuses.
func RefusesStrangers(ctx context.Context, path string) error {
	var stranger Key
	copy(stranger.line[:], strings.Repeat("0", digits)+"\n")
	c, err := Dial(ctx, path, stranger)
	switch {
	case err == nil:
		c.Close()
		return fmt.Errorf("%s serves whoever connects, also without its key", path)
	case errors.Is(err, ErrRefused):
		return nil
	}
	return err
}

func prove(c net.Conn, k Key) error {
	if err := c.SetDeadline(time.Now().Add(proofBound)); err != nil {
		return err
	}
	if _, err := c.Write(k.line[:]); errors.Is(err, syscall.EPIPE) {
		return ErrBusy
	} else if err != nil {
		return err
	}
	var answer [len(accepted)]byte
	if _, err := io.ReadFull(c, answer[:]); err == io.EOF || errors.Is(err, syscall.ECONNRESET) {
		return ErrBusy
	} else if err != nil {
		return fmt.Errorf("no answer to the key: %w", err)
	}
	if string(answer[:]) != accepted {
		return ErrRefused
	}
	return nil
}

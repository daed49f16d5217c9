package keysocket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// The server's first line.
const (
	accepted = "ok\n"
	refused  = "refused\n"
)

// maxUnproven bounds the connections that have not proved the key yet. One more
// closes the oldest, so that clients without the key, who may come again and again,
// do not keep out those with it, who send it at once.
const maxUnproven = 256

// A Server accepts connections on one socket.
type Server struct {
	// Sum is that of the key that is accepted.
	Sum Sum
	// MaxConnections bounds the proven connections served at once; more are
	// closed. 0 is 1024.
	MaxConnections int
	// Serve is called with each proven connection, on a goroutine of its own.
	// ctx ends with the server. The connection is closed when Serve returns.
	Serve func(ctx context.Context, c *net.UnixConn)
}

// Listen binds the socket at path with the given mode, which must be one of
// 0600 and 0660. A socket that nobody answers on is what a crash left, and is
// replaced; anything else there is an error.
func Listen(path string, mode os.FileMode) (*net.UnixListener, error) {
	if mode != 0o600 && mode != 0o660 {
		return nil, fmt.Errorf("the mode of %s must be 0600 or 0660, not %04o", path, mode)
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	old := syscall.Umask(0o177) // never wider than wanted, not for an instant
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	syscall.Umask(old)
	if err != nil {
		return nil, err
	}
	return l, os.Chmod(path, mode)
}

// removeStale removes a socket that nobody listens on.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("%s exists and is not a socket", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
		return fmt.Errorf("another process serves %s already", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%s is there and cannot be replaced: %w", path, err)
	}
	return os.Remove(path)
}

// Run serves l until ctx ends, then closes l and every connection and returns
// when each Serve has.
func (s *Server) Run(ctx context.Context, l *net.UnixListener) error {
	defer context.AfterFunc(ctx, func() { l.Close() })()
	most := s.MaxConnections
	if most == 0 {
		most = 1024
	}
	unproven, proven := &strangers{}, make(chan struct{}, most)
	var running sync.WaitGroup
	defer running.Wait()
	for {
		c, err := l.AcceptUnix()
		if ctx.Err() != nil {
			if err == nil {
				c.Close()
			}
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil { // out of descriptors: wait for some
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if !hasLine(c) {
			unproven.add(c)
		}
		running.Go(func() { s.serve(ctx, c, unproven, proven) })
	}
}

// hasLine reports whether the first line is there already, as it is of a client that
// sends it at once and had to wait to be accepted: then it takes no place.
func hasLine(c *net.UnixConn) bool {
	raw, err := c.SyscallConn()
	n := 0
	if err == nil {
		err = raw.Read(func(fd uintptr) bool {
			var line [digits + 1]byte
			n, _, _ = syscall.Recvfrom(int(fd), line[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			return true
		})
	}
	return err == nil && n > digits
}

// strangers are the connections that have not proved the key yet, the oldest first.
type strangers struct {
	mu   sync.Mutex
	list []*net.UnixConn
}

func (s *strangers) add(c *net.UnixConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) >= maxUnproven {
		s.list[0].Close()
		s.list = slices.Delete(s.list, 0, 1)
	}
	s.list = append(s.list, c)
}

func (s *strangers) remove(c *net.UnixConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(s.list, func(one *net.UnixConn) bool { return one == c })
}

func take(places chan struct{}) bool {
	select {
	case places <- struct{}{}:
		return true
	default:
		return false
	}
}

// serve answers the first line and hands the connection on.
func (s *Server) serve(ctx context.Context, c *net.UnixConn, unproven *strangers, proven chan struct{}) {
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	ok := s.accept(c)
	unproven.remove(c)
	if !ok || !take(proven) {
		return
	}
	defer func() { <-proven }()
	if _, err := io.WriteString(c, accepted); err == nil {
		s.Serve(ctx, c)
	}
}

// accept reads exactly the first line, so that no byte behind it is lost.
func (s *Server) accept(c *net.UnixConn) bool {
	c.SetDeadline(time.Now().Add(proofBound))
	var line [digits + 1]byte
	if _, err := io.ReadFull(c, line[:]); err != nil {
		return false
	}
	if !s.Sum.accepts(line[:]) {
		io.WriteString(c, refused)
		return false
	}
	return c.SetDeadline(time.Time{}) == nil
}

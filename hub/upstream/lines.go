package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lines speaks newline-delimited JSON-RPC over a byte stream, the framing of
// MCP's stdio transport.
type lines struct {
	in    *bufio.Reader
	out   io.Writer
	end   func() error // what Close does, once
	once  sync.Once
	begun bool // the first line was looked at for a byte order mark
	mu    sync.Mutex
	wake  *sync.Cond
	queue [][]byte
	bytes int
	busy  bool  // the writer writes
	err   error // why sending is over
}

// newLines starts the writer. end must make a blocked read and a blocked write
// return.
func newLines(in io.Reader, out io.Writer, end func() error) *lines {
	l := &lines{in: bufio.NewReaderSize(in, 32<<10), out: out, end: end}
	l.wake = sync.NewCond(&l.mu)
	go l.write()
	return l
}

// Send implements Conn. A server that leaves 16 MiB unread is given up.
func (l *lines) Send(m Outgoing) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if l.bytes > 0 && l.bytes+len(m.Raw) > queueBytes {
		l.err = ErrBacklog
		go l.Close()
		return l.err
	}
	line := append(bytes.Clone(m.Raw), '\n')
	if !l.busy && len(l.queue) == 0 {
		line = line[attempt(l.out, line):]
	}
	if len(line) > 0 {
		l.bytes += len(line)
		l.queue = append(l.queue, line)
		l.wake.Signal()
	}
	return nil
}

// attempt writes what a pipe or a socket takes at once, so that a call need not wake
// the writer, and returns how much that was. Errors are left for the writer to meet.
func attempt(out io.Writer, line []byte) (n int) {
	if c, ok := out.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			_ = raw.Write(func(fd uintptr) bool {
				n, _ = unix.Write(int(fd), line)
				return true
			})
		}
	}
	return max(n, 0)
}

func (l *lines) write() {
	for {
		line, ok := l.next()
		if !ok {
			return
		}
		if _, err := l.out.Write(line); err != nil {
			l.fail(err)
			time.AfterFunc(stopGrace, func() { l.Close() }) // until then the reader may learn why
			return
		}
	}
}

func (l *lines) next() ([]byte, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy = false
	for len(l.queue) == 0 && l.err == nil {
		l.wake.Wait()
	}
	if l.err != nil {
		return nil, false
	}
	line := l.queue[0]
	l.queue = l.queue[1:]
	l.bytes -= len(line)
	l.busy = true
	return line, true
}

func (l *lines) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
	l.wake.Broadcast()
}

// Receive implements Conn.
func (l *lines) Receive() ([]byte, error) {
	if !l.begun {
		l.begun = true
		dropMark(l.in)
	}
	var long []byte
	var room share
	defer room.done()
	for {
		part, err := l.in.ReadSlice('\n')
		if len(long)+len(part) > MaxLine {
			return nil, ErrLine
		}
		if err := room.add(len(part)); err != nil {
			return nil, err
		}
		if err == nil && long == nil {
			return bytes.Clone(part), nil
		}
		long = append(long, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && len(bytes.TrimSpace(long)) == 0 {
			return nil, l.reason(err)
		}
		return long, nil
	}
}

// reason prefers what made the hub give up over the read error it caused, but
// the server's own end over a write that it made fail.
func (l *lines) reason(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	plain := errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, net.ErrClosed) // says nothing
	switch {
	case l.err != nil && (plain || l.err == ErrBacklog || l.err == ErrClosed):
		return l.err
	case plain:
		return errors.New("the server ended the connection")
	}
	return err
}

// Close implements Conn.
func (l *lines) Close() (err error) {
	l.fail(ErrClosed)
	l.once.Do(func() { err = l.end() })
	return err
}

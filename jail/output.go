package jail

import (
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// drainBound is how long output may stay open once everything has been killed.
const drainBound = 500 * time.Millisecond

// maxPipe is how many bytes a pipe of an account's can hold (pipe(7), pipe-max-size).
const maxPipe = 1 << 20

// output copies what a command writes.
type output struct {
	reads []*os.File
	copy  sync.WaitGroup
	held  atomic.Bool
}

// pipe returns the end for the child: a copy of the file that w is, a pipe into
// w, or /dev/null. Only our end is non-blocking, which is a property of each end.
func (o *output) pipe(w io.Writer) (*os.File, error) {
	switch w := w.(type) {
	case nil:
		return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	case *os.File:
		fd, err := unix.FcntlInt(w.Fd(), unix.F_DUPFD_CLOEXEC, 3) // Fd makes it block
		return os.NewFile(uintptr(fd), "command"), err
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	unix.SetNonblock(fds[0], true)
	r := os.NewFile(uintptr(fds[0]), "output")
	o.reads = append(o.reads, r)
	o.copy.Go(func() {
		if _, err := io.Copy(w, r); os.IsTimeout(err) {
			o.held.Store(rest(w, fds[0]))
		}
		io.Copy(io.Discard, r) // a writer that fails must not block the command
	})
	return os.NewFile(uintptr(fds[1]), "command"), nil
}

// rest copies what lies in a pipe when the bound has passed, without waiting: on a busy
// machine nobody may have come to it before. It reports whether the other end is held.
func rest(w io.Writer, fd int) (held bool) {
	buf := make([]byte, 32<<10)
	for range maxPipe / len(buf) {
		n, err := unix.Read(fd, buf)
		if n <= 0 {
			return err != nil
		}
		w.Write(buf[:n])
	}
	return true
}

// drain waits for the rest of the output, at most until the bound. It reports
// whether somebody still held an end open then.
func (o *output) drain() bool {
	for _, r := range o.reads {
		r.SetReadDeadline(time.Now().Add(drainBound))
	}
	o.copy.Wait()
	for _, r := range o.reads {
		r.Close()
	}
	return o.held.Load()
}

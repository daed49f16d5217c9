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

// MaxPipe is how many bytes a pipe of an account's can hold (pipe(7), pipe-max-size).
const MaxPipe = 1 << 20

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
			_, err := io.CopyN(w, Rest{r}, MaxPipe)
			o.held.Store(err != io.EOF)
		}
		io.Copy(io.Discard, r) // a writer that fails must not block the command
	})
	return os.NewFile(uintptr(fds[1]), "command"), nil
}

// Rest reads what lies in a non-blocking pipe, without waiting and after its deadline too:
// on a busy machine nobody may have come to it before. At its end it says io.EOF, and
// EAGAIN where somebody holds the other one.
type Rest struct{ *os.File }

// Read implements io.Reader.
func (r Rest) Read(p []byte) (n int, err error) {
	raw, err := r.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { n, err = unix.Read(int(fd), p) })
	}
	if n == 0 && err == nil {
		err = io.EOF
	}
	return max(n, 0), err
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

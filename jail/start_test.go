package jail

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A stub that hangs before it becomes the command holds up its caller no longer
// than the caller wants to wait, and then nothing of it is left.
func TestStartThatHangsCanBeCancelled(t *testing.T) {
	j, err := New(Config{Mode: Full, Network: None, Writable: []string{t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(300*time.Millisecond, cancel)
	c := Command{Args: []string{"/bin/true"}}
	began := time.Now()
	p, err := j.begin(ctx, c, func() (launch, error) {
		l, err := j.launch(c)
		l.steps = append(l.steps, call("stop", unix.SYS_KILL, 0, uint64(unix.SIGSTOP))) // its own group
		return l, err
	})
	if err != context.Canceled || time.Since(began) > startBound/2 {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	if p.Wait(); unix.Kill(p.pid, 0) != unix.ESRCH {
		t.Error("the stub is still there")
	}
}

// The filter that every stub reads cannot be changed by who gets hold of it.
func TestFilterIsSealed(t *testing.T) {
	f, err := filterFile(assemble(Config{Mode: Full}.Rules(), "amd64"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{0}, 0); err == nil {
		t.Error("it can be written")
	}
	if err := f.Truncate(0); err == nil {
		t.Error("it can be cut")
	}
	again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDWR, 0)
	if err == nil {
		defer again.Close()
		if _, err := again.Write([]byte{0}); err == nil {
			t.Error("it can be opened and written")
		}
	}
}

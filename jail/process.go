package jail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/internal/procfs"
	"github.com/sallyport-dev/sallyport/jail/policy"
)

// Process is a started command.
type Process struct {
	jail *Jail
	forked
	out      output
	dir      *os.File  // the working directory in the command's mounts
	listener io.Closer // of Command.Listen
	leash    *os.File  // at its end the warden ends everything
	warden   int       // its process, 0 where there is none
	stop     context.CancelFunc
	stopped  context.Context
	kill     context.CancelFunc
	killed   context.Context // stopped ends with it
	done     chan struct{}
	seen     int // a process of the command that was alive at the last look
	begun    time.Time
	starved  atomic.Bool
	result   Result
}

// Start starts c. It returns when the command's program runs, or with the
// reason why it does not. When ctx ends, everything that c started is stopped.
func (j *Jail) Start(ctx context.Context, c Command) (*Process, error) {
	if len(c.Args) == 0 || !filepath.IsAbs(c.Args[0]) {
		return nil, fmt.Errorf("jail: the program must be an absolute path: %q", c.Args)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p, err := j.begin(ctx, c, func() (launch, error) { return j.launch(c) })
	if err != nil {
		return nil, fmt.Errorf("jail: %w", err)
	}
	return p, nil
}

func (j *Jail) begin(ctx context.Context, c Command, prepare prepare) (*Process, error) {
	p := &Process{jail: j, done: make(chan struct{}), begun: time.Now()}
	p.killed, p.kill = context.WithCancel(context.Background())
	p.stopped, p.stop = context.WithCancel(p.killed)
	if !p.add() {
		return nil, errors.New("closed")
	}
	started := make(chan error)
	go p.hold(ctx, c, prepare, started)
	return p, <-started
}

// Wait blocks until the command and everything it started are gone.
func (p *Process) Wait() Result {
	<-p.done
	return p.result
}

// Stop ends the command as a timeout does: SIGTERM to everything that it
// started, and SIGKILL to what is left after the jail's grace. It does not wait.
func (p *Process) Stop() { p.stop() }

// Kill ends the command now, without a grace or in the middle of it. It does
// not wait; Wait still returns the Result.
func (p *Process) Kill() { p.kill() }

// hold owns a command from its start to its end, on a thread of its own. The
// thread is never unlocked: it carries the command's outer domain, so it dies
// with the goroutine.
func (p *Process) hold(ctx context.Context, c Command, prepare prepare, started chan<- error) {
	runtime.LockOSThread()
	shortTurns(0)
	defer close(p.done)
	defer p.remove()
	defer p.kill()
	defer p.close()
	begin := time.Now()
	oom := procfs.OOMKills()
	if err := p.start(ctx, c, prepare); err != nil {
		if p.pid != 0 { // also a start that fails has come into the domain
			p.end()
			<-p.exited
		}
		p.out.drain()
		started <- err
		return
	}
	started <- nil
	thePressure.begin(p.jail)
	defer thePressure.end()
	var over time.Time
	if c.Timeout > 0 {
		over = begin.Add(c.Timeout)
	}
	status := p.await(ctx, over)
	p.result.Starved = p.starved.Load()
	p.result.MetLimit = thePressure.since(begin)
	p.result.OutputHeld = p.out.drain()
	p.result.OOMKilled = oom.Since()
	p.result.Duration = time.Since(begin)
	p.result.ExitCode = status.ExitStatus()
	if status.Signaled() {
		p.result.Signal = unix.SignalName(status.Signal())
	}
}

// close closes what the start opened for the command.
func (p *Process) close() {
	p.dir.Close() // of nil: nothing
	p.leash.Close()
	p.pidfd.Close()
	if p.listener != nil {
		p.listener.Close()
	}
}

// await returns when the command's program and everything it started are gone,
// for whatever reason.
func (p *Process) await(ctx context.Context, over time.Time) syscall.WaitStatus {
	p.sleep(ctx, over)
	if p.ended() {
		status := <-p.exited
		if status != 0 { // what it could not start may be why
			thePressure.look(p.jail.Tasks)
		}
		p.end()
		return status
	}
	p.result.Canceled = ctx.Err() != nil
	p.result.TimedOut = !p.result.Canceled && p.stopped.Err() == nil
	p.terminate(over)
	p.hurry()
	p.end()
	return <-p.exited
}

// sleep returns when the program has ended, when its time is over, or when it
// shall be stopped. This thread waits in the kernel: beside a fork bomb timers and
// channels of the runtime are late by hundreds of milliseconds. Where it has no
// descriptor to wait for, it looks every 20 ms.
func (p *Process) sleep(ctx context.Context, over time.Time) {
	most, on := -1, []unix.PollFd{{Fd: -1}, {Fd: -1}}
	if fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC); err == nil {
		wake := os.NewFile(uintptr(fd), "wake")
		defer wake.Close()
		ring := func() { wake.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0}) }
		defer context.AfterFunc(ctx, ring)()
		defer context.AfterFunc(p.stopped, ring)()
		on[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	if p.pidfd != nil {
		on[1] = unix.PollFd{Fd: int32(p.pidfd.Fd()), Events: unix.POLLIN}
	}
	if on[0].Fd < 0 || on[1].Fd < 0 {
		most = 20
	}
	for !p.ended() && ctx.Err() == nil && p.stopped.Err() == nil {
		left := most
		if !over.IsZero() {
			rest := int((time.Until(over) + time.Millisecond - 1) / time.Millisecond)
			if rest <= 0 {
				return
			}
			left = int(min(uint(left), uint(rest))) // -1, no limit, is the largest
		}
		unix.Poll(on, left)
	}
}

// terminate asks everything of the command to end, and returns when it has or
// when the grace is over. What is stopped goes on, or it could not.
func (p *Process) terminate(timeout time.Time) {
	if p.jail.cfg.Grace < 0 || p.killed.Err() != nil {
		return
	}
	p.signal(unix.SIGTERM)
	p.signal(unix.SIGCONT)
	over := time.Now().Add(p.jail.grace())
	if p.result.TimedOut {
		over = graceOver(timeout, time.Now(), p.jail.grace())
	}
	for wait := time.Millisecond; p.killed.Err() == nil && p.alive(); wait = min(2*wait, 20*time.Millisecond) {
		left := time.Until(over)
		if left <= 0 {
			return
		}
		nap(min(wait, left))
	}
}

// graceOver is when the grace of a timeout ends that this thread saw now: as if it
// had seen it at once, but for the last half of the grace, which a command always has.
func graceOver(timeout, now time.Time, grace time.Duration) time.Time {
	return now.Add(max(timeout.Add(grace).Sub(now), grace/2))
}

// end kills whatever is left of the command, and waits until it has died.
func (p *Process) end() {
	p.signal(unix.SIGKILL)
	p.result.Unkillable = p.jail.cfg.Mode == policy.Full && !awaitEmpty()
}

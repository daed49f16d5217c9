package jail

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/internal/procfs"
)

// Process is a started command.
type Process struct {
	jail   *Jail
	extra  string // a step for a throw-away child, instead of the walls
	at     *place // what a throw-away child probes
	pid    int
	exited <-chan syscall.WaitStatus
	out    output
	kill   context.CancelFunc
	killed context.Context
	done   chan struct{}
	result Result
}

// Start starts c. It returns when the command's program runs, or with the
// reason why it does not. When ctx ends, everything that c started is killed.
func (j *Jail) Start(ctx context.Context, c Command) (*Process, error) {
	if len(c.Args) == 0 || !filepath.IsAbs(c.Args[0]) {
		return nil, fmt.Errorf("jail: the program must be an absolute path: %q", c.Args)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p := &Process{jail: j}
	if err := p.start(ctx, c); err != nil {
		return nil, fmt.Errorf("jail: %w", err)
	}
	return p, nil
}

func (p *Process) start(ctx context.Context, c Command) error {
	p.done = make(chan struct{})
	p.killed, p.kill = context.WithCancel(context.Background())
	if !p.jail.add(p) {
		return errors.New("closed")
	}
	started := make(chan error)
	go p.hold(ctx, c, started)
	return <-started
}

// Wait blocks until the command and everything it started are gone.
func (p *Process) Wait() Result {
	<-p.done
	return p.result
}

// Kill ends the command now. Wait still returns its Result.
func (p *Process) Kill() { p.kill() }

// hold owns a command from its start to its end, on a thread of its own. The
// thread is never unlocked: it carries the command's outer domain, so it dies
// with the goroutine.
func (p *Process) hold(ctx context.Context, c Command, started chan<- error) {
	runtime.LockOSThread()
	defer close(p.done)
	defer p.jail.remove(p)
	defer p.kill()
	begin := time.Now()
	oom := procfs.OOMKills()
	if err := p.launch(c); err != nil {
		p.out.drain()
		started <- err
		return
	}
	started <- nil
	var over <-chan time.Time
	if c.Timeout > 0 {
		timer := time.NewTimer(c.Timeout - time.Since(begin))
		defer timer.Stop()
		over = timer.C
	}
	status := p.await(ctx, over)
	p.killAll()
	p.result.Unkillable = p.jail.cfg.Mode == Full && !awaitEmpty()
	p.result.OutputHeld = p.out.drain()
	p.result.OOMKilled = oom.Since()
	p.result.Duration = time.Since(begin)
	p.result.ExitCode = status.ExitStatus()
	if status.Signaled() {
		p.result.Signal = unix.SignalName(status.Signal())
	}
	if p.result.Signal != "SIGKILL" { // it ended by itself, just before
		p.result.TimedOut, p.result.Canceled = false, false
	}
}

// await returns when the command's program is gone, for whatever reason.
func (p *Process) await(ctx context.Context, over <-chan time.Time) syscall.WaitStatus {
	select {
	case status := <-p.exited:
		return status
	case <-over:
		p.result.TimedOut = true
	case <-ctx.Done():
		p.result.Canceled = true
	case <-p.killed.Done():
	}
	p.killAll()
	return <-p.exited
}

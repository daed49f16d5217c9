// Package command runs shell commands in a workspace: their environment, their
// output while and after they run, and the handles of those that outlive the
// call that started them. What holds a command is package jail.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/sallyport-dev/sallyport/jail"
	"github.com/sallyport-dev/sallyport/sandboxd/files"
	"github.com/sallyport-dev/sallyport/sandboxd/output"
)

// Runner starts commands. It is safe for concurrent use.
type Runner struct {
	jail    *jail.Jail
	files   *files.Workspace
	private *os.Root
	env     []string
	limit   int
	ctx     context.Context
	stop    context.CancelFunc
	table   table

	running  chan struct{} // a place for each command that its caller waits for
	starting chan struct{}
}

// The bounds of what happens at once. Each command holds one of this server's
// threads, and for a moment several of its own: without a bound, a burst of
// calls would use up a container's pids limit, and a Go program that gets no
// thread ends. Together with those in the background they stay within what
// package jail keeps free of that limit.
const (
	maxAtOnce  = 16
	maxStarts  = 4
	placeBound = 30 * time.Second // waiting for a place: clients give up after 60
)

// NewRunner starts commands in j, in the directories of w. private is a
// directory that j lets commands write to: their TMPDIR, with HOME, GOCACHE and
// GOPATH in it. Of each output stream limit bytes are kept.
func NewRunner(j *jail.Jail, w *files.Workspace, private string, limit int) (*Runner, error) {
	root, err := os.OpenRoot(private)
	if err != nil {
		return nil, fmt.Errorf("the private directory of commands: %w", err)
	}
	r := &Runner{jail: j, files: w, private: root, env: environment(private), limit: limit,
		running: make(chan struct{}, maxAtOnce), starting: make(chan struct{}, maxStarts)}
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r, nil
}

// Close ends every command; the jail's Close waits for them.
func (r *Runner) Close() error {
	r.stop()
	return r.private.Close()
}

// Command is one started command.
type Command struct {
	Handle         string // of a background command, else empty
	Stdout, Stderr *output.Buffer
	Started        time.Time

	line, owner string
	process     *jail.Process
	done        chan struct{} // closed once result is set
	result      jail.Result
}

// Start starts a line for /bin/sh -lc in workdir, which is relative to the
// workspace, for at most the given time. Where too many run already it waits a
// while for one of them to end. When ctx or the Runner ends, so does
// everything that the command started. Errors are words for a model.
func (r *Runner) Start(ctx context.Context, line, workdir string, most time.Duration) (*Command, error) {
	patience := time.NewTimer(placeBound)
	defer patience.Stop()
	select {
	case r.running <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-patience.C:
		return nil, fmt.Errorf("%d commands run already, which is the limit: try again when one of them has ended", maxAtOnce)
	}
	leave := func() { <-r.running }
	c, err := r.start(ctx, line, workdir, most, leave)
	if err != nil {
		leave()
	}
	return c, err
}

// start is Start without a place; ended is called at the command's end.
func (r *Runner) start(ctx context.Context, line, workdir string, most time.Duration, ended func()) (*Command, error) {
	if err := checkLine(line); err != nil {
		return nil, err
	}
	dir, err := r.files.Dir(workdir)
	if err != nil {
		return nil, fmt.Errorf("workdir: %w", err)
	}
	defer dir.Close()
	r.privateDirs()
	c := &Command{
		Stdout: output.New(r.limit), Stderr: output.New(r.limit),
		Started: time.Now(), line: line, done: make(chan struct{}),
	}
	r.starting <- struct{}{}
	c.process, err = r.jail.Start(ctx, jail.Command{
		Args: shell(line), Env: r.env, Dir: dir,
		Stdout: c.Stdout, Stderr: c.Stderr, Timeout: most,
	})
	<-r.starting
	if errors.Is(err, syscall.EAGAIN) {
		return nil, errors.New("the command could not be started: no more processes may run at the moment; try again when other commands have ended")
	}
	if err != nil {
		return nil, fmt.Errorf("the command could not be started: %w", err)
	}
	forget := context.AfterFunc(r.ctx, c.process.Stop)
	go func() {
		c.result = c.process.Wait()
		forget()
		ended()
		close(c.done)
	}()
	return c, nil
}

// Done is closed when the command and everything it started are gone.
func (c *Command) Done() <-chan struct{} { return c.done }

// Kill ends the command now.
func (c *Command) Kill() { c.process.Kill() }

// Result is how the command ended, and whether it has.
func (c *Command) Result() (jail.Result, bool) {
	select {
	case <-c.done:
		return c.result, true
	default:
		return jail.Result{}, false
	}
}

func (c *Command) running() bool {
	_, ended := c.Result()
	return !ended
}

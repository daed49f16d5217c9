// Package command runs shell commands in a workspace: who may run one now, their
// environment and private directories, their output while and after they run,
// and the handles of those that outlive the call that started them. Package jail
// restricts them.
package command

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sallyport-dev/sallyport/jail"
	"github.com/sallyport-dev/sallyport/sandboxd/files"
	"github.com/sallyport-dev/sallyport/sandboxd/network"
	"github.com/sallyport-dev/sallyport/sandboxd/output"
)

// Runner starts commands. It is safe for concurrent use.
type Runner struct {
	jail      *jail.Jail
	network   jail.Network
	files     *files.Workspace
	homes     *Homes
	limit     int
	ctx       context.Context
	stop      context.CancelFunc
	admission *admission
	table     table

	// Way, if not nil, gives the command of a call its way out; it may be nil.
	// It is set before the first Start.
	Way func(ctx context.Context) *network.Way
}

// NewRunner starts commands in j, in the directories of w, each with the private
// directory of its person out of homes, whose base j must be able to grant. Of
// each output stream limit bytes are kept.
func NewRunner(j *jail.Jail, network jail.Network, w *files.Workspace, homes *Homes, limit int) *Runner {
	r := &Runner{jail: j, network: network, files: w, homes: homes, limit: limit, admission: newAdmission()}
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r
}

// Close ends every command; the jail's Close waits for them.
func (r *Runner) Close() error {
	r.stop()
	return r.homes.Close()
}

// Walk gives a principal a place to list or search files, as Start does to commands.
// The caller must leave it.
func (r *Runner) Walk(ctx context.Context, owner string) (leave func(), err error) {
	return r.admission.enter(ctx, owner, walk)
}

// Command is one started command.
type Command struct {
	Handle         string // of a background command, else empty
	Stdout, Stderr *output.Buffer
	Started        time.Time
	Notices        []string // what its principal must know about its private directory

	line, owner string
	process     *jail.Process
	way         *network.Way // nil where commands have another network
	private     string
	done        chan struct{} // closed once result and room are set
	result      jail.Result
	room        string
	byOwner     atomic.Bool // the owner has stopped it
	once        sync.Once
	told        []string // see Tell
}

// Start starts a line for /bin/sh in workdir, which is relative to the workspace,
// for at most the given time, on behalf of a principal. Where too many run
// already it waits a while for one of them to end. When ctx or the Runner ends,
// so does everything that the command started. Errors tell a model what to do.
func (r *Runner) Start(ctx context.Context, owner, line, workdir string, most time.Duration) (*Command, error) {
	return r.start(ctx, owner, line, workdir, most, waitedFor)
}

func (r *Runner) start(ctx context.Context, owner, line, workdir string, most time.Duration, k kind) (_ *Command,
	err error) {
	if err := checkLine(line); err != nil {
		return nil, err
	}
	dir, err := r.files.Dir(workdir)
	if err != nil {
		return nil, fmt.Errorf("workdir: %w", err)
	}
	defer dir.Close()
	leave, err := r.admission.enter(ctx, owner, k)
	if err != nil {
		return nil, err
	}
	private, notices, quit, err := r.homes.enter(Person(owner))
	if err != nil {
		leave()
		return nil, err
	}
	c := &Command{
		Stdout: output.New(r.limit), Stderr: output.New(r.limit), Notices: notices,
		Started: time.Now(), line: line, owner: owner, private: private, done: make(chan struct{}),
	}
	if r.Way != nil {
		c.way = r.Way(ctx)
	}
	if k == background {
		ctx = context.Background()
	}
	r.admission.starts <- struct{}{}
	what := jail.Command{
		Args: shell(line), Env: environment(private, r.network), Dir: dir, Writable: []string{private},
		Home:   filepath.Join(private, "home"),
		Stdout: c.Stdout, Stderr: c.Stderr, Timeout: most,
	}
	if c.way != nil {
		what.Env, what.Listen = network.Environ(what.Env), c.way.Listen
	}
	c.process, err = r.jail.Start(ctx, what)
	<-r.admission.starts
	if err != nil {
		quit()
		leave()
		return nil, words(err)
	}
	forget := context.AfterFunc(r.ctx, c.process.Stop)
	go func() {
		c.result = c.process.Wait()
		c.room = room(private)
		if c.result.ExitCode > 0 {
			c.way.Failed()
		}
		forget()
		quit()
		leave()
		close(c.done)
	}()
	return c, nil
}

func words(err error) error {
	if errors.Is(err, syscall.EAGAIN) {
		return errors.New("the command could not be started: no more processes may run at the moment; try again when " +
			"other commands have ended")
	}
	return fmt.Errorf("the command could not be started: %w", err)
}

// Done is closed when the command and everything it started are gone.
func (c *Command) Done() <-chan struct{} { return c.done }

// Result is how the command ended, and whether it has.
func (c *Command) Result() (jail.Result, bool) {
	select {
	case <-c.done:
		return c.result, true
	default:
		return jail.Result{}, false
	}
}

// Room says that the disk of the private directory is full or nearly so, as it was
// when the command ended, or is while it runs.
func (c *Command) Room() string {
	if c.running() {
		return room(c.private)
	}
	return c.room
}

// Refused are the hosts that the command asked for and did not get, one
// sentence each with the rule that is needed.
func (c *Command) Refused() []string { return c.way.Notices() }

func (c *Command) running() bool {
	_, ended := c.Result()
	return !ended
}

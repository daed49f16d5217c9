// Package jail starts every program that sandboxd runs, and ends it. It is the
// only package that starts processes and the only one that imports unsafe.
package jail

import (
	"context"
	"errors"
	"io"
	"os"
	"time"
)

// Mode says how strongly commands are held.
type Mode string

// The modes. Group is the documented downgrade for kernels before 6.12.
const (
	Full  Mode = "full"
	Group Mode = "group"
)

// Network says what a command's sockets may reach.
type Network string

// The networks of MCP_COMMAND_NETWORK.
const (
	None      Network = "none"
	Container Network = "container"
)

// Config is the policy of one jail.
type Config struct {
	Mode        Mode
	Network     Network
	InContainer bool
	// Writable are the directories (absolute, cleaned) that a command may
	// write beneath: the workspace first.
	Writable []string
}

// Command is one program to run. The zero Timeout means none.
type Command struct {
	Args           []string  // Args[0] is the absolute path of the program
	Env            []string  // the whole environment
	Dir            *os.File  // working directory, opened through an os.Root
	Stdin          *os.File  // nil is /dev/null
	Stdout, Stderr io.Writer // each called from one goroutine; the caller bounds what it keeps
	Timeout        time.Duration
}

// Result is how a command ended.
type Result struct {
	ExitCode   int    // -1 when a signal ended it
	Signal     string // such as "SIGKILL", or empty
	TimedOut   bool
	Canceled   bool  // the context given to Start ended
	OOMKilled  *bool // nil where it is not known
	OutputHeld bool  // output was still held open when the drain bound passed
	Duration   time.Duration
}

// Jail runs commands under one policy.
type Jail struct{ cfg Config }

// Process is a started command.
type Process struct{}

// New builds the jail and walks into each of its walls once. A wall that gives
// is an error that names the missing piece and the downgrade.
func New(cfg Config) (*Jail, error) { return &Jail{cfg}, nil }

// Start starts c. When ctx ends, everything that c started is killed.
func (j *Jail) Start(ctx context.Context, c Command) (*Process, error) {
	return nil, errors.New("jail: not built yet")
}

// Run starts c and waits for its end.
func (j *Jail) Run(ctx context.Context, c Command) (Result, error) {
	p, err := j.Start(ctx, c)
	if err != nil {
		return Result{}, err
	}
	return p.Wait(), nil
}

// Notices are the lines about this jail that the start-up, doctor and every
// result must say aloud, such as that the jail is downgraded.
func (j *Jail) Notices() []string { return nil }

// Close kills what still runs and waits for it.
func (j *Jail) Close() error { return nil }

// Wait blocks until the command and everything it started are gone.
func (p *Process) Wait() Result { return Result{} }

// Kill ends the command now. Wait still returns its Result.
func (p *Process) Kill() {}

// Workspace is a workspace directory and the identity that commands get.
type Workspace struct {
	Path     string   // what commands see
	UID, GID int      // the owner, never 0
	Notices  []string // what was changed, to be said at start
}

// Prepare looks at dir before anything else is opened. As root it may give the
// directory itself to 64321, and where the owner cannot enter an ancestor it
// takes a private mount namespace and executes the program again, in which
// case it does not return.
func Prepare(dir string) (Workspace, error) { return Workspace{Path: dir}, nil }

// DropRoot gives up root for the workspace's owner. Without root it does
// nothing.
func (w Workspace) DropRoot() error { return nil }

// StubMain must be the first call of main. In a re-executed stub it does not
// return.
func StubMain() {}

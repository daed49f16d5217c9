// Package jail starts every program that sandboxd runs, and ends it. It is the
// only package that starts processes and the only one that imports unsafe.
//
// A process that builds a Jail has one reaper for all its children: nothing
// else in it may wait for a child, os/exec included.
package jail

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/internal/procfs"
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
	Mode    Mode
	Network Network
	// InContainer grants what a container has for itself: its /tmp, /dev/shm,
	// terminals and Unix sockets.
	InContainer bool
	// Writable are the directories (absolute, cleaned) that a command may
	// write beneath: the workspace first.
	Writable []string
	// Tasks is the budget of all running commands together where no container
	// limits them; 0 is 128.
	Tasks int
}

// Command is one program to run. The zero Timeout means none.
type Command struct {
	Args   []string // Args[0] is the absolute path of the program
	Env    []string // the whole environment
	Dir    *os.File // working directory, opened through an os.Root
	Stdin  *os.File // nil is /dev/null
	Stdout io.Writer
	Stderr io.Writer // each called from one goroutine; must not block; the caller bounds what it keeps
	// Timeout ends the command; it counts from Start.
	Timeout time.Duration
}

// Result is how a command ended.
type Result struct {
	ExitCode   int    // -1 when a signal ended it
	Signal     string // such as "SIGKILL", or empty
	TimedOut   bool
	Canceled   bool  // the context given to Start ended
	OOMKilled  *bool // nil where it is not known
	OutputHeld bool  // output was still held open when the drain bound passed
	Unkillable bool  // something that was killed hangs in the kernel and has not died
	Duration   time.Duration
}

// Jail runs commands under one policy.
type Jail struct {
	cfg     Config
	rules   []rule
	abi     int
	outer   *os.File // the domain of a command's thread here
	inner   *os.File // the command's own domain
	filter  *os.File
	mu      sync.Mutex
	closed  bool
	running map[*Process]bool
}

// New builds the jail and walks into each of its walls once. A wall that gives
// is an error that names the missing piece and the downgrade.
func New(cfg Config) (*Jail, error) {
	j := &Jail{cfg: cfg, rules: cfg.rules(), running: map[*Process]bool{}}
	if err := j.build(); err != nil {
		j.Close()
		if cfg.Mode == Full {
			err = unbuilt(err)
		}
		return nil, err
	}
	return j, nil
}

func (j *Jail) build() (err error) {
	if os.Geteuid() == 0 {
		return errors.New("commands do not run as root, whom no limit holds: start as another user, or give root up first")
	}
	if err := children.start(); err != nil {
		return err
	}
	// Memory and environment of this process hold the token: not for children.
	if has(j.rules, "flag", "server not dumpable") {
		unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	if v, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); v != 0 {
		return fmt.Errorf("this process stays dumpable (%d, %v)", v, err)
	}
	if j.cfg.Mode == Full {
		return j.buildWalls()
	}
	return nil
}

func (j *Jail) buildWalls() (err error) {
	if j.cfg.InContainer {
		if path, err := procfs.MountedSocket(j.cfg.Writable); path != "" || err != nil {
			return fmt.Errorf("commands could connect to the socket %s that is mounted into the container (%v): do not mount it", path, err)
		}
	}
	if j.abi, err = abi(); err != nil || j.abi < minABI {
		return fmt.Errorf("Landlock version %d is needed (Linux 6.12), this kernel has %d (%v)", minABI, j.abi, err)
	}
	if j.outer, j.inner, err = domains(j.rules); err != nil {
		return err
	}
	if j.filter, err = filterFile(assemble(j.rules, runtime.GOARCH)); err != nil {
		return err
	}
	if err := theCanary.start(); err != nil {
		return fmt.Errorf("the canary: %w", err)
	}
	return j.selfTest()
}

// Notices are the lines about this jail that the start-up, doctor and every
// result must say aloud, such as that the jail is downgraded.
func (j *Jail) Notices() []string {
	if j.cfg.Mode == Full {
		return nil
	}
	return []string{"MCP_JAIL=group: commands are only a process group. Nothing but the account keeps them from this server's token, " +
		"from other files and processes of the account and from the network, and what leaves the group outlives its command."}
}

// Close kills what still runs and waits for it. Start fails afterwards.
func (j *Jail) Close() error {
	j.mu.Lock()
	j.closed = true
	var left []*Process
	for p := range j.running {
		left = append(left, p)
	}
	j.mu.Unlock()
	for _, p := range left {
		p.Kill()
		p.Wait()
	}
	for _, f := range []*os.File{j.outer, j.inner, j.filter} {
		f.Close() // no harm where it was never opened
	}
	return nil
}

func (j *Jail) add(p *Process) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed {
		j.running[p] = true
	}
	return !j.closed
}

func (j *Jail) remove(p *Process) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.running, p)
}

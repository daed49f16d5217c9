// Package jail runs programs that are not trusted and ends them without a trace,
// with nothing but what an ordinary account on Linux 6.12 or newer may do. Each
// command gets two nested Landlock domains, a seccomp filter, resource limits, no
// new privileges, an explicit environment and no descriptor but its streams. At
// its end, whatever the reason, everything that it started is dead.
//
//	j, err := jail.New(jail.Config{Mode: jail.Full, Network: jail.None, Writable: []string{"/srv/work"}})
//	if err != nil {
//		return err // says which piece is missing; nothing falls open by itself
//	}
//	defer j.Close()
//	p, err := j.Start(ctx, jail.Command{Args: []string{"/bin/sh", "-c", "make"}, Stdout: os.Stdout})
//	if err != nil {
//		return err
//	}
//	fmt.Println(p.Wait().ExitCode)
//
// What is allowed is data in package policy; package stub is what the program
// becomes before it becomes the command; package selftest tries every rule at
// each start.
//
// A jail starts the program that contains it again (/proc/self/exe), as a stub
// that takes over before main. It is the only place of its process that may start
// processes and wait for them: a second waiter, os/exec included, would steal
// the statuses of its children. Importing it locks the main goroutine to the
// main thread.
package jail

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/internal/procfs"
	"github.com/sallyport-dev/sallyport/jail/policy"
)

// The policy's words, so that users of a jail need not import package policy.
type (
	// Config is the policy of one jail.
	Config = policy.Config
	// Mode says how strongly commands are held.
	Mode = policy.Mode
	// Network says what a command's sockets may reach.
	Network = policy.Network
)

// The modes and networks.
const (
	Full      = policy.Full
	Group     = policy.Group
	None      = policy.None
	Container = policy.Container
	Allowlist = policy.Allowlist
)

// Command is one program to run. The zero Timeout means none.
type Command struct {
	Args   []string  // Args[0] is the absolute path of the program
	Env    []string  // the whole environment
	Dir    *os.File  // working directory, opened through an os.Root
	Stdin  *os.File  // nil is /dev/null
	Stdout io.Writer // an *os.File is handed to the command as it is
	Stderr io.Writer // each called from one goroutine; must not block; the caller bounds what it keeps
	// Listen is called, where the network is Allowlist, in the command's network
	// namespace before the command runs. What it returns is closed at the end.
	// It must open its sockets itself, not in other goroutines.
	Listen func() (io.Closer, error)
	// Writable are directories that this command may write in, beside those
	// of Config: what is private to whoever it runs for.
	Writable []string
	// Home is the home directory in the account's line of passwd, where the
	// machine has none and commands have mounts of their own. It must be the same
	// for the same Writable.
	Home string
	// Timeout stops the command; it counts from Start.
	Timeout time.Duration
}

// Result is how a command ended. With TimedOut or Canceled, ExitCode and Signal
// say only how its program took the SIGTERM or SIGKILL.
type Result struct {
	ExitCode   int    // -1 when a signal ended it
	Signal     string // such as "SIGKILL", or empty
	TimedOut   bool
	Canceled   bool  // the context given to Start ended
	OOMKilled  *bool // nil where it is not known
	Starved    bool  // it was killed because the account's epoll watches were used up, which this server needs too
	MetLimit   bool  // all commands together had as many processes and threads as they may
	OutputHeld bool  // output was still held open when the drain bound passed
	Unkillable bool  // something that was killed hangs in the kernel and has not died
	Duration   time.Duration
}

// Jail runs commands under one policy.
type Jail struct {
	cfg     Config
	rules   policy.Rules
	abi     int
	outer   *os.File // the domain of a command's thread here
	inner   *os.File // the command's own domain
	filter  *os.File
	mounts  *os.File // the mount namespace of commands, if they have one
	mu      sync.Mutex
	private map[string]*os.File // those of commands with directories of their own, by these
	closed  bool                // under running.mu
}

// running are the commands of all jails of this process that run or start.
var running = struct {
	mu  sync.Mutex
	all map[*Process]bool
}{all: map[*Process]bool{}}

// New builds the jail and tries each of its rules once. A rule that is not
// enforced is an error that names the missing piece and the downgrade.
func New(cfg Config) (*Jail, error) {
	cfg = withLinks(cfg, "/etc")
	return build(cfg, cfg.Rules(), minABI)
}

func build(cfg Config, rules policy.Rules, needABI int) (*Jail, error) {
	j := &Jail{cfg: cfg, rules: rules, private: map[string]*os.File{}}
	if err := j.open(needABI); err != nil {
		j.Close()
		if cfg.Mode == Full {
			err = unbuilt(err)
		}
		return nil, err
	}
	return j, nil
}

func (j *Jail) open(needABI int) error {
	if j.cfg.Network == Allowlist && j.cfg.Mode != Full {
		return errors.New("the network allowlist needs the full jail: a process group has no network of its own")
	}
	if os.Geteuid() == 0 {
		return errors.New("commands do not run as root, whom no limit holds: start as another user, or give root up " +
			"first")
	}
	if err := children.start(); err != nil {
		return err
	}
	// Memory and environment of this process hold the token: not for children.
	if policy.Has[policy.NotDumpable](j.rules) {
		unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	}
	if v, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); v != 0 {
		return fmt.Errorf("this process stays dumpable (%d, %v)", v, err)
	}
	theReserve.fill() // where even that fails, the first look says so
	if j.cfg.Mode == Full {
		return j.openFull(needABI)
	}
	return nil
}

func (j *Jail) openFull(needABI int) (err error) {
	if j.cfg.InContainer {
		if path, err := procfs.MountedSocket(append(slices.Clip(j.cfg.Writable), j.cfg.Private...),
			j.cfg.Keyed); path != "" || err != nil {
			return fmt.Errorf("commands could connect to the socket %s that is mounted into the container (%v): do "+
				"not mount it", path, err)
		}
	}
	if j.abi, err = landlockABI(); err != nil || j.abi < needABI {
		return fmt.Errorf("Landlock version %d is needed (Linux 6.12), this kernel has %d (%v)", needABI, j.abi, err)
	}
	if err := j.openDomains(); err != nil {
		return err
	}
	if j.filter, err = filterFile(assemble(j.rules, runtime.GOARCH)); err != nil {
		return err
	}
	canary, err := theCanary.start()
	if err != nil {
		return fmt.Errorf("the canary: %w", err)
	}
	return j.selfTest(canary)
}

// openDomains makes the two domains, the command's where its paths lead.
func (j *Jail) openDomains() (err error) {
	if j.outer, err = outerDomain(j.rules); err != nil {
		return err
	}
	inner := func() (err error) {
		j.inner, err = innerDomain(j.rules)
		return err
	}
	private := policy.Has[policy.PrivateMounts](j.rules)
	if private {
		err = CanPrivateMounts()
	}
	if policy.Has[policy.OwnNetwork](j.rules) {
		err = errors.Join(err, CanOwnNetwork())
	}
	if err != nil {
		return fmt.Errorf("commands cannot have namespaces of their own: %w", err)
	}
	if !private {
		return inner()
	}
	j.mounts, err = mountNamespace(j.cfg.Writable, j.cfg.Readable, nil, func() error {
		if err := nameAccount(j.cfg.Writable[0]); err != nil {
			return err
		}
		return inner()
	})
	return err
}

// grace is how long a command that is stopped has to end by itself.
func (j *Jail) grace() time.Duration { return cmp.Or(j.cfg.Grace, policy.DefaultGrace) }

// Notices are the lines about this jail that the start-up, doctor and every
// result must report, such as that the jail is downgraded.
func (j *Jail) Notices() []string {
	if j.cfg.Mode == Full {
		return nil
	}
	return []string{"MCP_JAIL=group: commands are only a process group. Nothing but the account keeps them from this " +
		"server's token, " +
		"from other files and processes of the account and from the network, and what leaves the group outlives its " +
		"command."}
}

// Close stops all that still runs, at once, and waits for it: for the grace at
// most. Start fails afterwards.
func (j *Jail) Close() error {
	running.mu.Lock()
	j.closed = true
	var left []*Process
	for p := range running.all {
		if p.jail == j {
			left = append(left, p)
		}
	}
	running.mu.Unlock()
	for _, p := range left {
		p.Stop()
	}
	for _, p := range left {
		p.Wait()
	}
	for _, ns := range j.private {
		ns.Close()
	}
	for _, f := range []*os.File{j.outer, j.inner, j.filter, j.mounts} {
		f.Close() // no harm where it was never opened
	}
	return nil
}

func (p *Process) add() bool {
	running.mu.Lock()
	defer running.mu.Unlock()
	if !p.jail.closed {
		running.all[p] = true
	}
	return !p.jail.closed
}

// alone says whether at most one command runs or starts.
func alone() bool {
	running.mu.Lock()
	defer running.mu.Unlock()
	return len(running.all) < 2
}

func (p *Process) remove() {
	running.mu.Lock()
	defer running.mu.Unlock()
	delete(running.all, p)
}

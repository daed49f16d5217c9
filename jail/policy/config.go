// Package policy says, as data, what a command in a jail may do. It starts
// nothing and asks the kernel nothing: package jail enforces these rules, and
// package selftest tries each of them at start.
package policy

import (
	"fmt"
	"runtime"
	"strings"
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
	None      Network = "none"      // no socket of a network, not even loopback
	Container Network = "container" // whatever the network of this process reaches
	// Allowlist is a network namespace for each command that holds loopback
	// alone. The one way out is what Command.Listen opens in it.
	Allowlist Network = "allowlist"
)

// Config is the policy of one jail.
type Config struct {
	Mode    Mode
	Network Network
	// InContainer grants what a container has for itself: its /tmp, /dev/shm,
	// terminals and Unix sockets.
	InContainer bool
	// PrivateMounts gives commands a mount namespace of their own, in which all
	// but Writable and /proc is read-only, and with it a /tmp, /dev/shm and
	// terminals that are nobody else's. It needs jail.Reexec.
	PrivateMounts bool
	// SysVIPC allows System V memory, semaphores and queues and POSIX queues,
	// which outlive their command. Some databases need them.
	SysVIPC bool
	// Writable are the directories (absolute, cleaned) that a command may
	// write in: the workspace first.
	Writable []string
	// Keyed are the sockets in a container that commands may find: each serves
	// nobody who does not prove a key. Any other that is mounted stops the start.
	Keyed []string
	// Private are directories inside which single commands get one of their own
	// (Command.Writable). No command may write, or read, inside them as such.
	Private []string
	// Readable are further files and directories that a command may read.
	Readable []string
	// Tasks is the budget of processes and threads of all running commands
	// together; 0 is DefaultTasks. In a container, or wherever a cgroup bounds
	// this process, it is at most that bound less PidsReserve.
	Tasks int
	// Grace is how long a command that is stopped has between SIGTERM and
	// SIGKILL; 0 is DefaultGrace, a negative one none.
	Grace time.Duration
}

// The bounds on processes.
const (
	// PidsReserve is what a cgroup's bound keeps for the server's own threads.
	PidsReserve = 48
	// MinTasks is left to commands however small that bound is.
	MinTasks = 32
)

// DefaultGrace is the time between SIGTERM and SIGKILL.
const DefaultGrace = 2 * time.Second

// DefaultTasks is the budget of processes on this machine: build tools and test
// runners start about as many workers as there are cores.
func DefaultTasks() int { return 128 + 32*runtime.NumCPU() }

// Rules is the whole policy of a full jail, in the order in which it is built.
func (c Config) Rules() Rules {
	rs := c.domains()
	rs = append(rs, c.grants()...)
	rs = append(rs, c.calls()...)
	if c.PrivateMounts {
		rs = append(rs, PrivateMounts{})
	}
	if c.Network == Allowlist {
		rs = append(rs, OwnNetwork{})
	}
	return append(rs, process()...)
}

// String prints the policy, one rule on a line.
func (c Config) String() string {
	if c.Mode != Full {
		return "group: a session of its own, no_new_privs, limits; no restriction\n"
	}
	var b strings.Builder
	for _, r := range c.Rules() {
		fmt.Fprintln(&b, r)
	}
	fmt.Fprintf(&b, "other architecture: killed\nx32: ENOSYS\ncall %d and above: ENOSYS\n", UnknownCall)
	return b.String()
}

// Grants says which rule of the policy gives a command any access to path, if
// one does: no secret may lie there.
func (c Config) Grants(path string) (string, bool) {
	c.PrivateMounts = false // a private /tmp is not the one that path names
	for _, g := range All[Grant](c.grants()) {
		if path == g.Path || strings.HasPrefix(path, g.Path+"/") {
			return g.Path, true
		}
	}
	return "", false
}

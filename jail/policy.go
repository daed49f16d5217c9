package jail

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// minABI is the Landlock version of Linux 6.12, the first that can keep
// signals inside a domain.
var minABI = 6

// rule is one line of the policy. What it does depends on its kind:
//
//	outer      scope of the domain that a command shares with one thread of the server
//	scope      scope of the command's own domain
//	handle     right on files that the domain takes away ...
//	read, write, device
//	           ... and the paths beneath which it gives some back
//	tcp        right on TCP ports that it takes away
//	call       system call that seccomp refuses: always with ENOSYS, or with
//	           EPERM depending on an argument
//	limit      resource limit; budget: the one that is measured
//	nice       priority, so that this server gets its turn beside a fork bomb
//	flag       flag of the process
type rule struct {
	kind, name string
	bits       uint64 // the right, scope or limit
	arg        int    // call: the argument that decides
	op         string // call: "" (always), "&", "in" or "not in"
	vals       []uint32
}

// String is the line that the policy prints.
func (r rule) String() string {
	switch {
	case r.kind == "budget":
		return "limit " + r.name
	case r.kind == "limit":
		return fmt.Sprintf("limit %s %d", r.name, r.bits)
	case r.op != "":
		var vals []string
		for _, v := range r.vals {
			vals = append(vals, fmt.Sprintf("%#x", v))
		}
		return fmt.Sprintf("call %s EPERM if argument %d %s {%s}", r.name, r.arg, r.op, strings.Join(vals, " "))
	case r.kind == "call":
		return "call " + r.name + " ENOSYS"
	}
	return r.kind + " " + r.name
}

// What a grant gives back. Device nodes are never made, and ioctl on a device
// needs a grant of its own.
const (
	fsRead   = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	fsRemove = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE
	fsMake   = unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	fsWrite  = fsRead | fsRemove | fsMake | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	fsDevice = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV | unix.LANDLOCK_ACCESS_FS_READ_DIR
	fsOnFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// fileRights are Landlock's rights on files, each in the place of its bit
// (LANDLOCK_ACCESS_FS_*, linux/landlock.h).
const fileRights = "execute write_file read_file read_dir remove_dir remove_file make_char make_dir " +
	"make_reg make_sock make_fifo make_block make_sym refer truncate ioctl_dev"

// rules is the whole policy of a full jail, in the order in which it is built.
func (c Config) rules() []rule {
	rs := []rule{
		{kind: "outer", name: "signal", bits: unix.LANDLOCK_SCOPE_SIGNAL},
		{kind: "scope", name: "signal", bits: unix.LANDLOCK_SCOPE_SIGNAL},
		{kind: "scope", name: "abstract_unix_socket", bits: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET},
	}
	for i, name := range strings.Fields(fileRights) {
		if name != "read_dir" || !c.InContainer { // ls / is worth more there than the names in it
			rs = append(rs, rule{kind: "handle", name: name, bits: 1 << i})
		}
	}
	if c.Network != Container {
		rs = append(rs, rule{kind: "tcp", name: "bind", bits: unix.LANDLOCK_ACCESS_NET_BIND_TCP},
			rule{kind: "tcp", name: "connect", bits: unix.LANDLOCK_ACCESS_NET_CONNECT_TCP})
	}
	rs = append(rs, c.grants()...)
	rs = append(rs, c.calls()...)
	rs = append(rs, limits...)
	rs = append(rs, rule{kind: "budget", name: fmt.Sprintf("nproc: the account's tasks outside + %d, in a container + its pids limit - %d", bareBudget, pidsReserve)})
	rs = append(rs, rule{kind: "nice", name: strconv.Itoa(niceness)}, rule{kind: "flag", name: victim}, rule{kind: "flag", name: "no_new_privs"}, rule{kind: "flag", name: "server not dumpable"})
	return slices.DeleteFunc(rs, func(r rule) bool { return r.String() == omit })
}

func has(rules []rule, kind, name string) bool {
	return slices.ContainsFunc(rules, func(r rule) bool { return r.kind == kind && strings.HasPrefix(r.name, name) })
}

// niceness is the priority of commands: that of the server comes before it.
const niceness = 10

// victim makes commands the first that the kernel ends where memory is short. It
// goes by size else, and what lies in a memfd counts for no process: a small
// command that fills one would have this server ended in its place.
const victim = "oom_score_adj 1000"

// omit is a rule that a test leaves out, to see that something notices.
var omit string

// grants are the paths that a command keeps. On a bare machine it gets neither
// the shared temporary directories nor terminals, which are other people's.
func (c Config) grants() []rule {
	var rs []rule
	add := func(kind string, bits uint64, paths ...string) {
		for _, p := range paths {
			rs = append(rs, rule{kind: kind, name: p, bits: bits})
		}
	}
	add("read", fsRead, "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/etc", "/opt", "/nix/store", "/proc", "/sys")
	add("device", fsDevice, "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
	if c.InContainer {
		add("write", fsWrite, "/tmp", "/dev/shm")
		add("device", fsDevice, "/dev/tty", "/dev/ptmx", "/dev/pts")
	}
	add("write", fsWrite, c.Writable...)
	return rs
}

var limits = []rule{
	{kind: "limit", name: "core", bits: 0},
	{kind: "limit", name: "nofile", bits: 1024},
}

// String prints the policy, one rule on a line.
func (c Config) String() string {
	if c.Mode != Full {
		return "group: a session of its own, no_new_privs, limits; no wall\n"
	}
	var b strings.Builder
	for _, r := range c.rules() {
		fmt.Fprintln(&b, r)
	}
	fmt.Fprintf(&b, "other architecture: killed\nx32: ENOSYS\ncall %d and above: ENOSYS\n", unknownCall)
	return b.String()
}

// Grants says which rule of the policy gives a command any access to path, if
// one does: no secret may lie there.
func (c Config) Grants(path string) (string, bool) {
	for _, r := range c.grants() {
		if path == r.name || strings.HasPrefix(path, r.name+"/") {
			return r.name, true
		}
	}
	return "", false
}

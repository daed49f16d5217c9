package policy

import (
	"strings"

	"golang.org/x/sys/unix"
)

// Access is a kind of grant.
type Access string

// The kinds of access.
const (
	Read   Access = "read"   // read, list and run
	Write  Access = "write"  // all of it, and create and remove; no device nodes
	Device Access = "device" // read, write and control
)

// What a grant gives back. Device nodes are never made, and ioctl on a device
// needs a grant of its own.
const (
	fsRead   = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	fsRemove = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE
	fsMake   = unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	fsWrite = fsRead | fsRemove | fsMake | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REFER |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE
	fsDevice = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_IOCTL_DEV | unix.LANDLOCK_ACCESS_FS_READ_DIR
)

// OnFile are the rights that a grant on a file, not a directory, can give.
const OnFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
	unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

// Rights are Landlock's bits for a kind of access.
func (a Access) Rights() uint64 {
	return map[Access]uint64{Read: fsRead, Write: fsWrite, Device: fsDevice}[a]
}

// fileRights are Landlock's rights on files, each in the place of its bit
// (LANDLOCK_ACCESS_FS_*, linux/landlock.h).
const fileRights = "execute write_file read_file read_dir remove_dir remove_file make_char make_dir " +
	"make_reg make_sock make_fifo make_block make_sym refer truncate ioctl_dev"

// domains are the scopes and the rights that are taken away.
func (c Config) domains() Rules {
	rs := Rules{
		Outer{"signal", unix.LANDLOCK_SCOPE_SIGNAL},
		Scope{"signal", unix.LANDLOCK_SCOPE_SIGNAL},
		Scope{"abstract_unix_socket", unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET},
	}
	for i, name := range strings.Fields(fileRights) {
		if name != "read_dir" || !c.InContainer { // ls / is worth more there than the names in it
			rs = append(rs, Handle{name, 1 << i})
		}
	}
	if c.Network == None {
		rs = append(rs, Port{"bind", unix.LANDLOCK_ACCESS_NET_BIND_TCP},
			Port{"connect", unix.LANDLOCK_ACCESS_NET_CONNECT_TCP})
	}
	return rs
}

// grants are the paths that a command keeps. On a bare machine without private
// mounts it gets neither the shared temporary directories nor terminals, which
// are other people's.
func (c Config) grants() Rules {
	var rs Rules
	add := func(access Access, paths ...string) { rs = append(rs, grant(access, paths)...) }
	add(Read, "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/etc", "/opt", "/nix/store", "/proc",
		"/sys")
	add(Read, c.Readable...)
	add(Device, "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
	if c.InContainer || c.PrivateMounts {
		add(Write, "/tmp", "/dev/shm")
		add(Device, "/dev/tty", "/dev/ptmx", "/dev/pts")
	}
	add(Write, c.Writable...)
	return rs
}

// Private are the grants that one command has beside those of its jail.
func Private(dirs []string) Rules { return grant(Write, dirs) }

func grant(access Access, paths []string) (rs Rules) {
	for _, p := range paths {
		rs = append(rs, Grant{access, p, access.Rights()})
	}
	return rs
}

// process are the rules on the command's process and on the server's.
func process() Rules {
	return Rules{
		Limit{"core", unix.RLIMIT_CORE, 0},
		Limit{"nofile", unix.RLIMIT_NOFILE, 1024},
		Limit{"nice", unix.RLIMIT_NICE, 0}, // accounts of some desktops may come before all others
		Limit{"rtprio", unix.RLIMIT_RTPRIO, 0},
		Budget{},
		Nice{10},
		OOMScore{1000},
		NoNewPrivs{},
		NotDumpable{},
	}
}

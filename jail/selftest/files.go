package selftest

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/jail/policy"
)

// attempt tries one rule; want is what must come of it.
type attempt struct {
	rule string
	try  func() error
	want error
}

// TryFiles is the stage Files.
func TryFiles() error {
	at, err := here()
	if err == nil {
		report(Files, at.files())
	}
	return err
}

// report prints the attempts that did not go as they must, then their number.
func report(stage string, attempts []attempt) {
	for _, a := range attempts {
		if got := a.try(); got != a.want {
			fmt.Printf("%s: got %v, want %v\n", a.rule, got, a.want)
		}
	}
	fmt.Printf("%s %d\n", stage, len(attempts))
}

func open(path string, flags int) func() error {
	return func() error {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0o600)
		unix.Close(fd)         // of -1: nothing
		if err == unix.ENXIO { // let in, with nothing behind it: /dev/tty in a session without a terminal
			return nil
		}
		return err
	}
}

func signal0(pid int) func() error { return func() error { return unix.Kill(pid, 0) } }

// files are the rules that Landlock enforces.
func (at Place) files() []attempt {
	out := func(name string) string { return filepath.Join(at.Outside, name) }
	mknod := func(kind uint32) func() error {
		return func() error { return unix.Mknod(out(fmt.Sprint(kind)), kind|0o600, 0) }
	}
	as := []attempt{
		{"execute outside", func() error { return syscall.Exec(out("data"), []string{"x"}, nil) }, unix.EACCES},
		{"write a file outside", open(out("file"), unix.O_WRONLY), unix.EACCES},
		{"read a file outside", open(out("file"), unix.O_RDONLY), unix.EACCES},
		{"remove a directory outside", func() error { return unix.Rmdir(out("dir")) }, unix.EACCES},
		{"remove a file outside", func() error { return unix.Unlink(out("gone")) }, unix.EACCES},
		{"make a device outside", mknod(unix.S_IFCHR), unix.EACCES},
		{"make a directory outside", func() error { return unix.Mkdir(out("new"), 0o700) }, unix.EACCES},
		{"make a file outside", mknod(unix.S_IFREG), unix.EACCES},
		{"make a socket outside", mknod(unix.S_IFSOCK), unix.EACCES},
		{"make a FIFO outside", mknod(unix.S_IFIFO), unix.EACCES},
		{"make a block device outside", mknod(unix.S_IFBLK), unix.EACCES},
		{"make a link outside", func() error { return unix.Symlink("x", out("link")) }, unix.EACCES},
		{"truncate a file outside", func() error { return unix.Truncate(out("file"), 0) }, unix.EACCES},
		{"control a device", func() error {
			fd, err := unix.Open("/dev/full", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err == nil {
				defer unix.Close(fd)
				_, err = unix.IoctlGetInt(fd, unix.TCGETS)
			}
			return err
		}, unix.EACCES},
	}
	as = append(as, at.inside()...)
	as = append(as, at.otherProcesses()...)
	if at.Config.PrivateMounts {
		as = append(as, at.mounts()...)
	}
	return append(as, at.granted()...)
}

// inside tries what a granted directory allows, and what not even that does.
func (at Place) inside() []attempt {
	out := func(name string) string { return filepath.Join(at.Outside, name) }
	in := func(name string) string { return filepath.Join(at.Inside, name) }
	return []attempt{
		{"link a file in", func() error { return unix.Link(out("file"), in("hard")) }, unix.EXDEV},
		{"make a device inside", func() error { return unix.Mknod(in("dev"), unix.S_IFCHR|0o600, 0) }, unix.EACCES},
		{"move a file inside", func() error { return unix.Rename(in("a/file"), in("b/file")) }, nil},
		{"make a file inside", open(in("new"), unix.O_CREAT|unix.O_WRONLY), nil},
	}
}

// otherProcesses tries to reach what runs outside.
func (at Place) otherProcesses() []attempt {
	proc := fmt.Sprintf("/proc/%d/", at.Server)
	return []attempt{
		{"signal the server", signal0(at.Server), unix.EPERM},
		{"signal the server's thread", signal0(at.Thread), unix.EPERM},
		{"signal another process", signal0(at.Canary), unix.EPERM},
		{"read the server's environment", ofProcess(open(proc+"environ", unix.O_RDONLY)), unix.EACCES},
		{"read the server's memory", ofProcess(open(proc+"mem", unix.O_RDWR)), unix.EACCES},
		{"read a thread's environment", ofProcess(open(fmt.Sprintf("%stask/%d/environ", proc, at.Thread),
			unix.O_RDONLY)), unix.EACCES},
		{"reach a socket of the server", func() error {
			return withSocket(unix.AF_UNIX, func(fd int) error {
				return unix.Connect(fd, &unix.SockaddrUnix{Name: at.Abstract})
			})
		}, unix.EPERM},
	}
}

// ofProcess makes one refusal of two: a procfs that hides processes from whom may not
// trace them (hidepid=invisible, systemd's ProtectProc) says that there is none.
func ofProcess(try func() error) func() error {
	return func() error {
		err := try()
		if err == unix.ENOENT {
			return unix.EACCES
		}
		return err
	}
}

// granted tries each grant, and what is granted only in some policies.
func (at Place) granted() (as []attempt) {
	if at.Config.Network == policy.None {
		local := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
		as = append(as,
			attempt{"bind a TCP port", func() error {
				return withSocket(unix.AF_INET, func(fd int) error { return unix.Bind(fd, local) })
			}, unix.EACCES},
			attempt{"connect to a TCP port", func() error {
				return withSocket(unix.AF_INET, func(fd int) error { return unix.Connect(fd, local) })
			}, unix.EACCES})
	}
	if !at.Config.InContainer {
		as = append(as, attempt{"list a directory outside", open(at.Outside, unix.O_DIRECTORY), unix.EACCES})
	}
	for _, g := range policy.All[policy.Grant](at.Config.Rules()) {
		if _, err := os.Stat(g.Path); err == nil && !under(at.Outside, g.Path) {
			as = append(as, attempt{g.String(), open(g.Path, unix.O_RDONLY), nil})
		}
	}
	return as
}

func withSocket(family int, use func(fd int) error) error {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return use(fd)
}

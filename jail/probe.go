package jail

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/jail/stub"
)

// A walk through init happens on the main thread. Locking it here keeps the
// main goroutine there, so that no command is ever started from the main
// thread: its domain would be the one that /proc/PID of the server shows.
//
// In a re-executed stub that is to do more than become a command, it goes on
// here and does not return.
func init() {
	runtime.LockOSThread()
	for stub.Left != nil {
		if err := probe(stub.Left[1]); err != nil {
			stub.Fail(err)
		}
		stub.Go(stub.Left[stub.Width:])
	}
}

// place is what a probe walks into. The server makes it and passes it in the
// probe's environment.
type place struct {
	Config
	Server, Thread, Canary int    // processes that a command must not reach
	Outside, Inside        string // directories beside each other; only Inside is granted
	Abstract               string // a socket of the server
	Budget                 uint64 // the limit on processes
}

const placeVariable = "SALLYPORT_PROBE"

// attempt is one walk into a wall; want is what the wall answers.
type attempt struct {
	wall string
	try  func() error
	want error
}

// probe tries every wall of a stage and prints those that do not answer as
// they should, then how many it tried.
func probe(stage string) error {
	if stage == "trial" {
		return trial()
	}
	var p place
	if err := json.Unmarshal([]byte(os.Getenv(placeVariable)), &p); err != nil {
		return err
	}
	attempts := p.files()
	if stage == "seccomp" {
		attempts = append(p.callAttempts(), p.limitAttempts()...)
	}
	for _, a := range attempts {
		if got := a.try(); got != a.want {
			fmt.Printf("%s: got %v, want %v\n", a.wall, got, a.want)
		}
	}
	fmt.Printf("%s %d\n", stage, len(attempts))
	return nil
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

// files are the walls that Landlock holds.
func (p place) files() []attempt {
	out := func(name string) string { return filepath.Join(p.Outside, name) }
	in := func(name string) string { return filepath.Join(p.Inside, name) }
	mknod := func(kind uint32) func() error {
		return func() error { return unix.Mknod(out(fmt.Sprint(kind)), kind|0o600, 0) }
	}
	proc := fmt.Sprintf("/proc/%d/", p.Server)
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
		{"link a file in", func() error { return unix.Link(out("file"), in("hard")) }, unix.EXDEV},
		{"make a device inside", func() error { return unix.Mknod(in("dev"), unix.S_IFCHR|0o600, 0) }, unix.EACCES},
		{"move a file inside", func() error { return unix.Rename(in("a/file"), in("b/file")) }, nil},
		{"make a file inside", open(in("new"), unix.O_CREAT|unix.O_WRONLY), nil},
		{"signal the server", signal0(p.Server), unix.EPERM},
		{"signal the server's thread", signal0(p.Thread), unix.EPERM},
		{"signal another process", signal0(p.Canary), unix.EPERM},
		{"read the server's environment", open(proc+"environ", unix.O_RDONLY), unix.EACCES},
		{"read the server's memory", open(proc+"mem", unix.O_RDWR), unix.EACCES},
		{"read a thread's environment", open(fmt.Sprintf("%stask/%d/environ", proc, p.Thread), unix.O_RDONLY), unix.EACCES},
		{"reach a socket of the server", func() error {
			return withSocket(unix.AF_UNIX, func(fd int) error { return unix.Connect(fd, &unix.SockaddrUnix{Name: p.Abstract}) })
		}, unix.EPERM},
	}
	if p.Network != Container {
		local := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
		as = append(as,
			attempt{"bind a TCP port", func() error { return withSocket(unix.AF_INET, func(fd int) error { return unix.Bind(fd, local) }) }, unix.EACCES},
			attempt{"connect to a TCP port", func() error { return withSocket(unix.AF_INET, func(fd int) error { return unix.Connect(fd, local) }) }, unix.EACCES})
	}
	if !p.InContainer {
		as = append(as, attempt{"list a directory outside", open(p.Outside, unix.O_DIRECTORY), unix.EACCES})
	}
	for _, g := range p.grants() {
		if _, err := os.Stat(g.name); err == nil && !strings.HasPrefix(p.Outside, g.name+"/") {
			as = append(as, attempt{g.String(), open(g.name, unix.O_RDONLY), nil})
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

// callAttempts make each refused call. The arguments are such that an open
// wall does no harm: mostly all ones, which no call takes.
func (p place) callAttempts() []attempt {
	rules := p.calls()
	var as []attempt
	for _, r := range rules {
		nr, _ := number(r.name, runtime.GOARCH)
		if r.op == "" {
			as = append(as, attempt{r.String(), call(nr, invalid()), unix.ENOSYS})
			continue
		}
		for _, v := range p.refusedValues(r) {
			args := invalid()
			for _, other := range rules { // what only this rule refuses
				switch {
				case other.name == r.name && other.op == "not in" && len(other.vals) > 0:
					args[other.arg] = uintptr(other.vals[0])
				case other.name == r.name && other.op == "&":
					args[other.arg] = 0
				}
			}
			args[r.arg] = uintptr(v)
			as = append(as, attempt{r.String(), call(nr, args), unix.EPERM})
		}
	}
	return append(as, attempt{"new system calls", call(unknownCall, invalid()), unix.ENOSYS})
}

// refusedValues are arguments that a rule refuses.
func (p place) refusedValues(r rule) []uint32 {
	switch {
	case r.op == "in":
		return r.vals
	case r.op == "&" && r.name == "socketpair":
		return []uint32{unix.SOCK_DGRAM, unix.SOCK_RAW}
	case r.op == "&": // with CLONE_FS a new user namespace is invalid in itself
		return []uint32{unix.CLONE_NEWUSER | unix.CLONE_FS}
	case strings.HasPrefix(r.name, "socket"):
		families := []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK, unix.AF_PACKET, unix.AF_VSOCK, unix.AF_ALG}
		return slices.DeleteFunc(families, func(f uint32) bool { return slices.Contains(r.vals, f) })
	}
	return []uint32{uint32(p.Canary)}
}

func invalid() (args [6]uintptr) {
	for i := range args {
		args[i] = ^uintptr(0)
	}
	return args
}

func call(nr uint32, a [6]uintptr) func() error {
	return func() error {
		_, _, errno := unix.Syscall6(uintptr(nr), a[0], a[1], a[2], a[3], a[4], a[5])
		if errno == 0 {
			return nil
		}
		return errno
	}
}

func (p place) limitAttempts() (as []attempt) {
	check := func(name string, err error, good bool, got any) {
		if err == nil && !good {
			err = fmt.Errorf("%v", got)
		}
		as = append(as, attempt{name, func() error { return err }, nil})
	}
	flag, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	check("no_new_privs", err, flag == 1, flag)
	nice, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	check("nice", err, 20-nice >= niceness, nice) // the call gives 20 - nice (getpriority(2))
	score, err := os.ReadFile("/proc/self/oom_score_adj")
	check(victim, err, string(score) == "1000\n", string(score))
	for _, r := range append(limits, rule{kind: "limit", name: "nproc", bits: p.Budget}) {
		var l syscall.Rlimit
		err := syscall.Getrlimit(limitNumber[r.name], &l)
		check(r.String(), err, l.Max == r.bits, l.Max)
	}
	return append(as, attempt{"fork beyond the limit", func() error {
		if err := syscall.Setrlimit(unix.RLIMIT_NPROC, &syscall.Rlimit{Cur: 1, Max: 1}); err != nil {
			return err
		}
		return forkOnce()
	}, unix.EAGAIN})
}

package jail_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// secret is what the victim holds in its environment and memory.
const secret = "token-5c1f7d"

// target is what an attacker aims at. It travels as JSON in its environment.
type target struct {
	Victim, Thread int    // a process of the account, and a thread of it
	Outside        string // a directory that is not granted
	Sockets        []string
	Journal        string // a datagram socket
	Abstract       string
	Port           int // a TCP and a UDP port that somebody listens on
}

// attack returns nil if it got through.
type attack func(target) error

// attacks are what a command that knows how the jail works tries. Each is
// harmless if it succeeds.
var attacks = map[string]attack{
	"own environment":   func(target) error { return found(strings.Join(os.Environ(), "\n")) },
	"environ":           func(t target) error { return readSecret(t.proc("environ")) },
	"thread's environ":  func(t target) error { return readSecret(t.task("environ")) },
	"memory":            func(t target) error { return opens(t.proc("mem"), unix.O_RDWR) },
	"thread's memory":   func(t target) error { return opens(t.task("mem"), unix.O_RDWR) },
	"maps":              func(t target) error { return reads(t.proc("maps")) },
	"auxv":              func(t target) error { return reads(t.proc("auxv")) },
	"executable":        func(t target) error { return opens(t.proc("exe"), unix.O_RDONLY) },
	"its root":          func(t target) error { return opens(t.proc("root/etc/passwd"), unix.O_RDONLY) },
	"descriptors":       func(t target) error { _, err := os.ReadDir(t.proc("fd")); return err },
	"oom score":         func(t target) error { return opens(t.proc("oom_score_adj"), unix.O_WRONLY) },
	"ptrace":            func(t target) error { return seize(t.Victim) },
	"ptrace a thread":   func(t target) error { return seize(t.Thread) },
	"process_vm_readv":  readMemory,
	"pidfd_getfd":       stealDescriptor,
	"kill":              func(t target) error { return unix.Kill(t.Victim, 0) },
	"kill a thread":     func(t target) error { return unix.Kill(t.Thread, 0) },
	"pidfd_send_signal": signalByPidfd,
	"prlimit":           func(t target) error { var l unix.Rlimit; return unix.Prlimit(t.Victim, unix.RLIMIT_NOFILE, nil, &l) },
	"affinity":          setAffinity,
	"nice":              func(t target) error { return refusedByKernel(unix.Setpriority(unix.PRIO_PROCESS, t.Victim, 0)) },
	"nice the account":  func(target) error { return refusedByKernel(unix.Setpriority(unix.PRIO_USER, os.Getuid(), 0)) },
	"ionice":            func(t target) error { return raw(unix.SYS_IOPRIO_SET, 1, uintptr(t.Victim), 2<<13|4) },
	"scheduler": func(t target) error {
		var p int32
		return raw(unix.SYS_SCHED_SETSCHEDULER, uintptr(t.Victim), 0, uintptr(unsafe.Pointer(&p)))
	},

	"tcp connect":    func(t target) error { return connect(unix.SOCK_STREAM, 0, t.Port) },
	"mptcp connect":  func(t target) error { return connect(unix.SOCK_STREAM, unix.IPPROTO_MPTCP, t.Port) },
	"tcp fast open":  fastOpen,
	"tcp bind":       func(target) error { return bind(unix.SOCK_STREAM, 0) },
	"mptcp bind":     func(target) error { return bind(unix.SOCK_STREAM, unix.IPPROTO_MPTCP) },
	"listen unbound": listenUnbound,
	"udp":            func(t target) error { return connect(unix.SOCK_DGRAM, 0, t.Port) },
	"netlink":        func(target) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE) },
	"io_uring":       ioUring,
	"io_setup": func(target) error {
		var aio uintptr
		return raw(unix.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&aio)), 0)
	},
	"abstract socket": func(t target) error { return dial(t.Abstract) },
	"docker socket":   func(t target) error { return dial(t.Sockets[0]) },
	"session bus":     func(t target) error { return dial(t.Sockets[1]) },
	"tmux socket":     func(t target) error { return dial(t.Sockets[2]) },
	"ssh-agent":       func(t target) error { return dial(t.Sockets[3]) },
	"journal":         func(t target) error { return datagramTo(t.Journal) },

	"read outside":     func(t target) error { return opens(filepath.Join(t.Outside, "file"), unix.O_RDONLY) },
	"write outside":    func(t target) error { return opens(filepath.Join(t.Outside, "file"), unix.O_WRONLY) },
	"create outside":   func(t target) error { return opens(filepath.Join(t.Outside, "new"), unix.O_CREAT|unix.O_WRONLY) },
	"/dev/shm":         sharedFile,
	"user namespace":   func(target) error { return notUnderstood(unix.Unshare(unix.CLONE_NEWUSER)) }, /* too many threads */
	"keyring":          func(target) error { _, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true); return err },
	"shared memory":    func(target) error { return created(unix.SYS_SHMGET, unix.SYS_SHMCTL, 0, 4096, 0o600) },
	"semaphores":       func(target) error { return created(unix.SYS_SEMGET, unix.SYS_SEMCTL, 0, 1, 0o600) },
	"message queue":    func(target) error { return created(unix.SYS_MSGGET, unix.SYS_MSGCTL, 0, 0o600, 0) },
	"posix queue":      posixQueue,
	"set-user-ID":      func(target) error { return special(0o4755, false) },
	"set-group-ID":     func(target) error { return special(0o2755, false) },
	"set-group-ID bit": func(target) error { return special(0o2644, false) },
	"made set-user-ID": func(target) error { return special(0o4755, true) },
	"openat2":          openat2,
	"line discipline":  func(target) error { return notUnderstood(raw(unix.SYS_IOCTL, 0, unix.TIOCSETD, 0)) },
	"encryption key":   func(target) error { return notUnderstood(raw(unix.SYS_IOCTL, 0, unix.FS_IOC_ADD_ENCRYPTION_KEY, 0)) },
	"netlink events":   func(target) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT) },
	"inject in a tty":  func(target) error { return notUnderstood(raw(unix.SYS_IOCTL, 0, unix.TIOCSTI, 0)) },
	"perf events":      func(target) error { return notUnderstood(raw(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0)) },
	"mount":            func(target) error { return notUnderstood(raw(unix.SYS_MOUNT, 0, 0, 0)) },
}

func (t target) proc(name string) string { return fmt.Sprintf("/proc/%d/%s", t.Victim, name) }
func (t target) task(name string) string {
	return fmt.Sprintf("/proc/%d/task/%d/%s", t.Victim, t.Thread, name)
}

func found(text string) error {
	if !strings.Contains(text, secret) {
		return errors.New("no secret there")
	}
	return nil
}

func readSecret(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return found(string(text))
}

func reads(path string) error { _, err := os.ReadFile(path); return err }

func opens(path string, flags int) error {
	f, err := os.OpenFile(path, flags, 0o600)
	f.Close()
	return err
}

func raw(nr uintptr, a, b, c uintptr) error {
	if _, _, errno := unix.Syscall6(nr, a, b, c, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// notUnderstood takes the kernel's complaint about the arguments as a sign that
// the call got that far.
func notUnderstood(err error) error {
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EFAULT) {
		return nil
	}
	return err
}

// refusedByKernel is for a change that would do harm: asked for what only root
// may do, the kernel says so, once the call has got that far.
func refusedByKernel(err error) error {
	if errors.Is(err, unix.EACCES) {
		return nil
	}
	return err
}

func seize(pid int) error {
	return raw(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0) // until this process ends
}

func readMemory(t target) error {
	var buf [8]byte
	local := []unix.Iovec{{Base: &buf[0], Len: 8}}
	_, err := unix.ProcessVMReadv(t.Victim, local, []unix.RemoteIovec{{Base: 8, Len: 8}}, 0)
	if err == unix.EFAULT { // nothing is mapped there, and we were let in to see that
		return nil
	}
	return err
}

func stealDescriptor(t target) error {
	fd, err := unix.PidfdOpen(t.Victim, 0)
	if err != nil {
		return err
	}
	_, err = unix.PidfdGetfd(fd, 0, 0)
	return err
}

func signalByPidfd(t target) error {
	fd, err := unix.PidfdOpen(t.Victim, 0)
	if err != nil {
		return err
	}
	return unix.PidfdSendSignal(fd, 0, nil, 0)
}

func setAffinity(t target) error {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(t.Victim, &set); err != nil {
		return err
	}
	return unix.SchedSetaffinity(t.Victim, &set)
}

func ioUring(target) error {
	var params [120]byte
	return raw(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&params)), 0)
}

func socket(family, kind, proto int) error {
	fd, err := unix.Socket(family, kind, proto)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func loopback(port int) unix.Sockaddr {
	return &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
}

func connect(kind, proto, port int) error {
	fd, err := unix.Socket(unix.AF_INET, kind, proto)
	if err != nil {
		return err
	}
	return unix.Connect(fd, loopback(port))
}

func bind(kind, proto int) error {
	fd, err := unix.Socket(unix.AF_INET, kind, proto)
	if err != nil {
		return err
	}
	return unix.Bind(fd, loopback(0))
}

func fastOpen(t target) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	return unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, loopback(t.Port))
}

func listenUnbound(target) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	return unix.Listen(fd, 1)
}

func dial(path string) error {
	c, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	defer c.Close()
	return nil
}

// datagramTo needs no socket(2): either end of a pair may send elsewhere.
func datagramTo(path string) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	return unix.Sendto(pair[0], []byte("x"), 0, &unix.SockaddrUnix{Name: path})
}

func sharedFile(target) error {
	f, err := os.CreateTemp("/dev/shm", "sallyport")
	if err != nil {
		return err
	}
	return os.Remove(f.Name())
}

// created makes an object that no process holds, and removes it.
func created(get, control, a, b, c uintptr) error {
	id, _, errno := unix.Syscall(get, a, b, c)
	if errno != 0 {
		return errno
	}
	if control == unix.SYS_SEMCTL {
		return raw(control, id, 0, unix.IPC_RMID)
	}
	return raw(control, id, unix.IPC_RMID, 0)
}

func posixQueue(target) error {
	name, err := unix.BytePtrFromString(fmt.Sprintf("sallyport-%d", os.Getpid()))
	if err != nil {
		return err
	}
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_CREAT|unix.O_RDWR, 0o600, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	unix.Close(int(fd))
	return raw(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(name)), 0, 0)
}

// special gives a file beside this program a mode that would run it as the
// account, at its creation or later.
func special(mode uint32, atCreation bool) error {
	path := fmt.Sprintf("%s.%o", os.Args[0], mode)
	defer os.Remove(path)
	first := uint32(0o755)
	if atCreation {
		first = mode
	}
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_WRONLY|unix.O_EXCL, first)
	if err != nil {
		return err
	}
	unix.Close(fd)
	if !atCreation {
		err = unix.Chmod(path, mode)
	}
	var st unix.Stat_t
	if err := errors.Join(err, unix.Stat(path, &st)); err != nil {
		return err
	}
	if st.Mode&0o7777 != mode {
		return fmt.Errorf("the mode is %o", st.Mode)
	}
	return nil
}

func openat2(target) error {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH})
	if err == nil {
		unix.Close(fd)
	}
	return err
}

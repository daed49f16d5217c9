package jail

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// marker names, in the environment, the user namespace that this program was
// started in: whoever is in another one has been put there by Reexec.
const marker = "SALLYPORT_USER_NAMESPACE"

// kept are the capabilities with which the server gives commands a mount and a
// network namespace. They count in its own user namespace alone, where they
// reach nothing that the account does not reach anyway.
var kept = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_NET_ADMIN}

// errOutside is why this process is in no user namespace of its own.
var errOutside = errors.New("this program did not ask for one (jail.Reexec)")

// Reexec continues this program as a child in a user namespace of its own, with
// which a jail can give its commands private mounts and an own network. The
// parent waits, passes signals on, and returns the child's exit code and true.
// In the child, and where the machine allows no such namespace, Reexec returns
// 0 and false at once, and the program goes on; CanPrivateMounts and
// CanOwnNetwork say what it can have.
//
// It must be called from the main goroutine before anything is opened. Started
// as root the child is root in the namespace, with all owners as they are, until
// DropRoot; started as another account it sees all other owners as nobody.
func Reexec() (code int, ended bool) {
	here, err := os.Readlink("/proc/self/ns/user")
	if was := os.Getenv(marker); err == nil && was != "" && was != here {
		errOutside = nil
		return 0, false
	}
	child, err := startInside(here)
	if err != nil {
		errOutside = fmt.Errorf("a user namespace for this program: %w", err)
		return 0, false
	}
	return wait(child), true
}

// startInside starts this program again in a user namespace. What it may gain by
// set-user-ID programs it gives up before: with mounts of its own it could deceive them.
func startInside(here string) (pid int, err error) {
	if unix.Gettid() != unix.Getpid() {
		return 0, errors.New("jail: Reexec must be called from the main goroutine")
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, err
	}
	sys := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, Pdeathsig: unix.SIGTERM, Setpgid: true}
	if os.Geteuid() == 0 {
		if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_GETPID, 0, 0, 0); errno != 0 {
			return 0, errors.New("this program was built with cgo, and then root cannot be given up in part")
		}
		sys.UidMappings, err = identity("/proc/self/uid_map")
		if err == nil {
			sys.GidMappings, err = identity("/proc/self/gid_map")
		}
		sys.GidMappingsEnableSetgroups = true
	} else {
		sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		sys.AmbientCaps = kept
	}
	if err != nil {
		return 0, err
	}
	return syscall.ForkExec("/proc/self/exe", os.Args, &syscall.ProcAttr{
		Env: append(os.Environ(), marker+"="+here), Files: []uintptr{0, 1, 2}, Sys: sys})
}

// identity maps every id that this process knows to itself.
func identity(path string) (maps []syscall.SysProcIDMap, err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(raw) {
		var m syscall.SysProcIDMap
		var parent int64
		if _, err := fmt.Sscan(string(line), &m.ContainerID, &parent, &m.Size); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		m.HostID = m.ContainerID
		maps = append(maps, m)
	}
	return maps, nil
}

// wait passes signals on until the child has ended, and returns its exit code,
// as a shell tells it. The child is in a group of its own, so that what a
// terminal sends to all of a group comes once.
func wait(pid int) int {
	signals := make(chan os.Signal, 16)
	pass := []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2}
	if !signal.Ignored(unix.SIGHUP) {
		pass = append(pass, unix.SIGHUP)
	}
	signal.Notify(signals, pass...)
	onlyKill()
	giveBack()
	ended := make(chan syscall.WaitStatus)
	go func() {
		var status syscall.WaitStatus
		for {
			if _, err := syscall.Wait4(pid, &status, 0, nil); err != unix.EINTR {
				break
			}
		}
		ended <- status
	}()
	for {
		select {
		case s := <-signals:
			unix.Kill(pid, s.(syscall.Signal)) // at most a zombie: it is waited for once
		case status := <-ended:
			if status.Signaled() {
				return 128 + int(status.Signal())
			}
			return status.ExitStatus()
		}
	}
}

// giveBack returns the memory that a parent which only waits does not use: its
// garbage, and the pages of its own file, which come back by themselves where they
// are needed. Not meant are mappings with anonymous pages: to them something was written.
func giveBack() {
	debug.FreeOSMemory()
	program, _ := os.Readlink("/proc/self/exe") // where one of them cannot be read, the pages stay
	maps, _ := os.ReadFile("/proc/self/smaps")
	var start, end uintptr
	for line := range bytes.Lines(maps) { // proc_pid_smaps(5)
		f := strings.Fields(string(line))
		switch {
		case len(f) == 6 && f[5] == program && strings.HasPrefix(f[1], "r-"):
			if _, err := fmt.Sscanf(f[0], "%x-%x", &start, &end); err != nil {
				start, end = 0, 0
			}
		case len(f) == 3 && f[0] == "Anonymous:" && f[1] == "0" && end > start:
			unix.Syscall(unix.SYS_MADVISE, start, end-start, unix.MADV_DONTNEED)
			start, end = 0, 0
		case len(f) > 4: // another mapping begins
			start, end = 0, 0
		}
	}
}

// onlyKill leaves a parent that is root with the right to signal, no more.
func onlyKill() {
	unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // it has read what the child reads
	if os.Geteuid() != 0 {
		return
	}
	const nobody = 65534
	all := func(call uintptr, args ...uintptr) {
		args = append(args, 0, 0, 0)
		syscall.AllThreadsSyscall(call, args[0], args[1], args[2])
	}
	all(unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1)
	syscall.Setgroups(nil)
	syscall.Setresgid(nobody, nobody, nobody)
	syscall.Setresuid(nobody, nobody, nobody)
	setCapabilities(true, unix.CAP_KILL)
}

// CanPrivateMounts is nil where Config.PrivateMounts can be had in this process,
// and else the reason.
func CanPrivateMounts() error { return inNamespace(tryMounts) }

// CanOwnNetwork is nil where the network Allowlist can be had in this process,
// and else the reason.
func CanOwnNetwork() error { return inNamespace(tryNetwork) }

func inNamespace(try func() error) error {
	if errOutside != nil {
		return errOutside
	}
	return try()
}

// Each is tried once: some machines allow a user namespace and then deny what it
// is for.
var (
	tryMounts  = sync.OnceValue(func() error { return onThread(func() error { return privateMounts(nil, nil, nil) }) })
	tryNetwork = sync.OnceValue(func() error { return onThread(ownNetwork) })
)

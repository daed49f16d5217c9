package jail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	boundPath     = "/run/sallyport/workspace"
	boundVariable = "SALLYPORT_WORKSPACE_BOUND"
)

// reachable makes sure that the owner can enter every directory above the
// workspace. Opening it as root would not do: a shell's cd, git, node and the
// go command walk there by name.
func (w Workspace) reachable() (Workspace, error) {
	if w.ownerCanEnter() {
		return w, nil
	}
	if os.Getenv(boundVariable) == w.Path && sameFile(w.Path, boundPath) {
		// What was to be said before the exec comes first: the log begins here.
		w.Notices = append(strings.Split(os.Getenv(boundVariable+"_NOTICES"), "\n"),
			fmt.Sprintf("uid %d cannot enter %s by name: commands see it as %s", w.UID, w.Path, boundPath))
		w.Path = boundPath
		return w, nil
	}
	return w, fmt.Errorf("uid %d, which owns the workspace %s, cannot enter a directory above it, and binding it to "+
		"%s failed: %w; "+
		"move the workspace, or let others enter the directories above it (chmod o+x), or start as their owner", w.UID,
		w.Path, boundPath, w.bind())
}

// ownerCanEnter asks the kernel, from a thread that is the owner to the file
// system for a moment. The raw calls do not tell the other threads. A thread that
// became the owner for good and ended would be no way: it ends when it likes, and
// DropRoot crashes where it meets a thread with other rights than the rest.
func (w Workspace) ownerCanEnter() bool {
	groups, err := unix.Getgroups()
	if err != nil {
		return false
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer rawSetgroups(groups)
	if !rawSetgroups(nil) {
		return false
	}
	defer unix.Setfsgid(unix.Getegid())
	defer unix.Setfsuid(unix.Geteuid()) // runs first, and gives the capabilities back
	unix.Setfsgid(w.GID)
	unix.Setfsuid(w.UID) // takes CAP_DAC_OVERRIDE and its kin (capabilities(7))
	fd, err := unix.Open(w.Path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	unix.Close(fd)
	return err == nil
}

// rawSetgroups sets the supplementary groups of this thread alone.
func rawSetgroups(groups []int) bool {
	list := make([]uint32, len(groups)+1)
	for i, g := range groups {
		list[i] = uint32(g)
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&list[0])), 0)
	return errno == 0
}

// bind takes a mount namespace that only this process has, binds the workspace
// to a path that everybody can walk, and starts the program again in it. It
// returns only if it fails.
func (w Workspace) bind() error {
	if os.Getenv(boundVariable) != "" {
		return errors.New("tried before")
	}
	runtime.LockOSThread() // the namespace is the thread's, and the thread makes the exec
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mount private: %w", err)
	}
	err := os.MkdirAll(boundPath, 0o755)
	for _, dir := range []string{filepath.Dir(boundPath), boundPath} { // whatever the umask
		err = errors.Join(err, os.Chmod(dir, 0o755))
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(w.Path, boundPath, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	return syscall.Exec("/proc/self/exe", os.Args,
		append(os.Environ(), boundVariable+"="+w.Path, boundVariable+"_NOTICES="+strings.Join(w.Notices, "\n")))
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

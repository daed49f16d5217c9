package jail

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// tmpfsOptions bound what lies in memory for as long as the server lives.
const (
	tmpfsOptions = "mode=1777,size=256m,nr_inodes=64k"
	littleTmpfs  = "mode=1777,size=4m,nr_inodes=1k" // for an owner who comes when others have filled that
)

// onThread calls f on a thread of its own, which ends with it.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		done <- f()
	}()
	return <-done
}

// inMemory are the directories of commands that lie in memory, with tmpfsOptions.
var inMemory = []string{"/tmp", "/dev/shm"}

// mountNamespace makes the mount namespace of commands, and calls inside in it. What it
// has in memory is new, or the parts that are given (see parts).
func mountNamespace(writable, readable []string, parts map[string]int, inside func() error) (ns *os.File, err error) {
	err = onThread(func() (err error) {
		if err := privateMounts(writable, readable, parts); err != nil {
			return err
		}
		if ns, err = os.Open(fmt.Sprintf("/proc/self/task/%d/ns/mnt", unix.Gettid())); err != nil {
			return err
		}
		return inside()
	})
	return ns, err
}

// maxPrivate bounds the mount namespaces that are kept for later commands.
const maxPrivate = 64

// mountsFor is the mount namespace of a command that may write in directories of
// its own. It is made once for each set of them, so that those of others are
// read-only, and their /tmp is not the same.
func (j *Jail) mountsFor(own []string, home string) (*os.File, error) {
	if len(own) == 0 {
		return j.mounts, nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	key := strings.Join(own, "\x00")
	if ns := j.private[key]; ns != nil {
		return ns, nil
	}
	for other := range j.private {
		if len(j.private) < maxPrivate {
			break
		}
		delete(j.private, other) // closed once nobody uses it, also as a namespace
	}
	parts, err := j.parts(key)
	defer closeTrees(parts)
	if err != nil {
		return nil, err
	}
	ns, err := mountNamespace(append(slices.Clip(j.cfg.Writable), own...), j.cfg.Readable, parts,
		func() error { return nameAccount(cmp.Or(home, own[0])) })
	if err == nil {
		j.private[key] = ns
	}
	return ns, err
}

// parts are the directories of one set of owners in the memory of j.mounts, so that all
// owners together fill no more of it than one could, and none sees another's. They stay
// for when a namespace that was dropped is made again.
func (j *Jail) parts(key string) (trees map[string]int, err error) {
	trees = map[string]int{}
	return trees, onThread(func() error {
		if err := enterMounts(j.mounts); err != nil {
			return err
		}
		for _, at := range inMemory {
			var fs unix.Statfs_t
			if unix.Statfs(at, &fs) != nil || fs.Bavail*uint64(fs.Bsize) < 1<<20 || fs.Ffree < 64 {
				continue // not on this machine, or full: see littleTmpfs
			}
			dir := fmt.Sprintf("%s/%x", at, sha256.Sum256([]byte(key)))
			err := os.Mkdir(dir, 0o700)
			if err == nil {
				err = os.Chmod(dir, os.ModeSticky|0o777)
			} else if errors.Is(err, os.ErrExist) {
				err = nil
			}
			if err == nil {
				trees[at], err = openTree(dir)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
		}
		return nil
	})
}

func openTree(dir string) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return fd, fmt.Errorf("open_tree: %w", err)
	}
	return fd, nil
}

func closeTrees(trees map[string]int) {
	for _, fd := range trees {
		unix.Close(fd)
	}
}

// enterMounts puts the calling thread into a mount namespace of commands.
func enterMounts(ns *os.File) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil { // working directory and root become its own
		return fmt.Errorf("unshare: %w", err)
	}
	defer runtime.KeepAlive(ns) // which mountsFor may have dropped for another meanwhile
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("setns: %w", err)
	}
	for _, at := range inMemory { // a command may have closed what leads to the workspace and to HOME
		_ = os.Chmod(at, os.ModeSticky|0o777)
	}
	return nil
}

// privateMounts takes the calling thread into a mount namespace in which all but
// the writable directories and /proc is read-only, with a /tmp, /dev/shm and
// pseudo-terminals of its own. A writable directory keeps its path, and so does a
// readable one that a new directory would hide.
func privateMounts(writable, readable []string, parts map[string]int) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	// Private, so that what the machine mounts later does not arrive here, writable.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mounts: %w", err)
	}
	trees, dirs := map[string]int{}, slices.Clone(writable)
	readable = slices.DeleteFunc(slices.Clone(readable), func(dir string) bool {
		info, err := os.Stat(dir)
		return err != nil || !info.IsDir() ||
			!strings.HasPrefix(dir, "/tmp/") && !strings.HasPrefix(dir, "/dev/shm/")
	})
	dirs = append(dirs, readable...)
	defer func() { closeTrees(trees) }()
	for _, dir := range dirs {
		fd, err := openTree(dir)
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		trees[dir] = fd
	}
	if err := readOnly(parts); err != nil {
		return err
	}
	lead, err := leading(dirs)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := unix.MoveMount(trees[dir], "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("%s: move_mount: %w", dir, err)
		}
	}
	for _, dir := range append(lead, readable...) {
		if err := unix.MountSetattr(unix.AT_FDCWD, dir, 0,
			&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	return nil
}

// leading makes the directories that lead to those under the new, empty
// directories, on mounts that can become read-only: what lies beside a workspace
// is not the commands' there either. It returns where those are mounted.
func leading(writable []string) (mounts []string, err error) {
	for _, dir := range writable {
		for _, fresh := range inMemory {
			below, ok := strings.CutPrefix(dir, fresh+"/")
			first, _, deep := strings.Cut(below, "/")
			if at := filepath.Join(fresh, first); ok && deep && !slices.Contains(mounts, at) {
				if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, os.ErrExist) { // of a dropped namespace
					return nil, err
				}
				if err := unix.Mount("tmpfs", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV,
					"mode=755,size=1m"); err != nil {
					return nil, fmt.Errorf("%s: %w", at, err)
				}
				mounts = append(mounts, at)
			}
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	return mounts, nil
}

// readOnly makes every mount read-only, but /proc and the fresh ones, or parts in their place.
func readOnly(parts map[string]int) error {
	set := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &set); err != nil {
		return fmt.Errorf("read-only mounts: %w", err)
	}
	writable := unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/proc", 0, &writable); err != nil {
		return fmt.Errorf("/proc: %w", err)
	}
	for _, m := range []struct{ kind, at, options string }{
		{"tmpfs", "/tmp", tmpfsOptions},
		{"tmpfs", "/dev/shm", tmpfsOptions},
		{"devpts", "/dev/pts", "newinstance,ptmxmode=0666,mode=0620"},
	} {
		var err error
		if part, ok := parts[m.at]; ok {
			err = unix.MoveMount(part, "", unix.AT_FDCWD, m.at, unix.MOVE_MOUNT_F_EMPTY_PATH)
		} else {
			if parts != nil && m.kind == "tmpfs" {
				m.options = littleTmpfs
			}
			err = unix.Mount(m.kind, m.at, m.kind, unix.MS_NOSUID|unix.MS_NODEV&^devicesOf(m.kind), m.options)
		}
		if err != nil && !errors.Is(err, unix.ENOENT) { // a machine without one has nothing to hide there
			return fmt.Errorf("%s: %w", m.at, err)
		}
	}
	return nil
}

// devicesOf is MS_NODEV for a file system that consists of devices.
func devicesOf(kind string) uintptr {
	if kind == "devpts" {
		return unix.MS_NODEV
	}
	return 0
}

// reopen opens a directory again by its path, in the calling thread's mounts: a
// descriptor keeps the mount that it was opened through.
func reopen(dir *os.File) (*os.File, error) {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("the working directory %s: %w", strings.TrimSpace(path), err)
	}
	again := os.NewFile(uintptr(fd), path)
	was, errWas := dir.Stat()
	is, errIs := again.Stat()
	if errWas != nil || errIs != nil || !os.SameFile(was, is) {
		again.Close()
		return nil, fmt.Errorf("the working directory %s has been replaced meanwhile", path)
	}
	return again, nil
}

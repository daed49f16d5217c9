package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// lockless reports whether a file system has no locks (flock(2) on network and
// FUSE file systems).
func lockless(err error) bool {
	return errors.Is(err, syscall.ENOLCK) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EOPNOTSUPP)
}

// errLost marks what a replacement would lose.
var errLost = errors.New("replacing it would lose that: change it in place with run_command (cat >, sed without -i)")

// inherit gives the new file what the old one has beside its content: group,
// extended attributes (access control lists among them) and mode. What cannot be
// kept is an error.
func (w *Workspace) inherit(f *os.File, name string, old fs.FileInfo) error {
	was := old.Sys().(*syscall.Stat_t)
	var now unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &now); err != nil {
		return err
	}
	if was.Gid != now.Gid {
		if err := f.Chown(-1, int(was.Gid)); err != nil {
			return fmt.Errorf("it belongs to group %d; %w", was.Gid, errLost)
		}
	}
	if err := w.copyAttributes(f, name); err != nil {
		return err
	}
	return f.Chmod(old.Mode().Perm())
}

// copyAttributes copies what is not the kernel's own (security.*: labels that
// it gives by itself).
func (w *Workspace) copyAttributes(f *os.File, name string) error {
	from, _, err := w.openRegular(name)
	if err != nil {
		return nil // not readable, so nothing of it can be copied; its mode is kept
	}
	defer from.Close()
	list := make([]byte, 64<<10)
	n, err := unix.Flistxattr(int(from.Fd()), list)
	if err != nil {
		return nil // none, or not known here
	}
	for attr := range strings.SplitSeq(strings.Trim(string(list[:n]), "\x00"), "\x00") {
		if attr == "" || strings.HasPrefix(attr, "security.") || strings.HasPrefix(attr, "trusted.") {
			continue
		}
		value := make([]byte, 64<<10)
		n, err := unix.Fgetxattr(int(from.Fd()), attr, value)
		if err == nil {
			err = unix.Fsetxattr(int(f.Fd()), attr, value[:n], 0)
		}
		if err != nil {
			return fmt.Errorf("it has the attribute %s; %w", attr, errLost)
		}
	}
	return nil
}

package serve

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// privatePrefix begins the name of a server's private directory, which is
// TMPDIR and HOME of its commands.
const privatePrefix = "sallyport-private-"

// privateDir makes the directory, which ends with b. A lock on it says that
// its server lives.
func (b *Box) privateDir() (string, error) {
	dir, err := os.MkdirTemp("", privatePrefix)
	if err != nil {
		return "", err
	}
	b.onClose(func() error { return removeTree(dir) })
	f, err := os.Open(dir)
	if err != nil {
		return "", err
	}
	b.onClose(f.Close)
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) // where there are no locks, nothing is swept
	go sweepPrivate(os.TempDir())
	return dir, nil
}

// sweepPrivate removes what servers that were killed left in temp: their
// commands' caches can be large. A directory whose server lives is locked, but
// for a moment after it was made.
func sweepPrivate(temp string) {
	dirs, _ := filepath.Glob(filepath.Join(temp, privatePrefix+"*"))
	for _, dir := range dirs {
		f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if err != nil {
			continue // not to be read, or no directory
		}
		var info syscall.Stat_t
		err = syscall.Fstat(int(f.Fd()), &info)
		ours := err == nil && int(info.Uid) == os.Getuid() // another's, made to be walked, could change below us
		if ours && time.Since(time.Unix(info.Mtim.Unix())) > time.Minute && syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = removeTree(dir)
		}
		f.Close()
	}
}

// removeTree is os.RemoveAll also where a command left directories that their
// owner may not change, as Go's module cache is.
func removeTree(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

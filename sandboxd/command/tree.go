package command

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/sallyport-dev/sallyport/internal/procfs"
)

// RemoveTree is os.RemoveAll also where a command left directories that their
// owner may not change, as Go's module cache is, or tens of thousands below each
// other. It holds two of them open, however deep they lie: what is in a directory
// at the top moves up to the top, and then that one goes. It follows no link.
func RemoveTree(dir string) error {
	if err := os.Remove(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	top, err := openTree(dir)
	if err != nil {
		return err
	}
	defer top.Close()
	moved, fresh := 0, rand.Text()
	err = each(top, func(name string) error {
		if os.Remove(in(top, name)) == nil {
			return nil
		}
		sub, err := openTree(in(top, name))
		if err != nil {
			return err
		}
		defer sub.Close()
		err = each(sub, func(below string) error {
			if os.Remove(in(sub, below)) == nil {
				return nil
			}
			_, _ = procfs.OpenToOwner(in(sub, below)) // what moves must itself be writable
			moved++
			return os.Rename(in(sub, below), in(top, fmt.Sprint(fresh, moved)))
		})
		return errors.Join(err, os.Remove(in(top, name)))
	})
	if gone := os.Remove(dir); gone != nil {
		return errors.Join(err, gone)
	}
	return nil
}

func openTree(path string) (*os.File, error) {
	_, _ = procfs.OpenToOwner(path)
	return os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
}

// in is the path of a directory's entry that does not change with the directory's own.
func in(dir *os.File, name string) string { return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name) }

// each takes all entries out of a directory, those that take cannot aside, whose last
// error it returns.
func each(dir *os.File, take func(name string) error) (err error) {
	for taken := true; taken; {
		taken = false
		if _, err := dir.Seek(0, 0); err != nil {
			return err
		}
		names, _ := dir.Readdirnames(1024)
		for _, name := range names {
			if failed := take(name); failed != nil {
				err = failed
			} else {
				taken = true
			}
		}
	}
	return err
}

// maxLevels is how many directories below each other are measured: each holds a
// descriptor of this server's.
const maxLevels = 100

// size is how many bytes a tree takes on its disk, as far as it can be read. It reads
// in pieces: a command may have made directories with millions of entries.
func size(dir string, levels int) (sum int64) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return 0
	}
	defer f.Close()
	for err == nil {
		var entries []fs.DirEntry
		entries, err = f.ReadDir(512)
		for _, d := range entries {
			if info, err := d.Info(); err == nil {
				sum += info.Sys().(*syscall.Stat_t).Blocks * 512
			}
			if d.IsDir() && levels > 0 {
				sum += size(filepath.Join(dir, d.Name()), levels-1)
			}
		}
	}
	return sum
}

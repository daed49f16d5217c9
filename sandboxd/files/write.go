package files

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"unicode/utf8"
)

// maxAppended is the largest file, in bytes, that can still be appended to:
// appending copies it, so that it too is all or nothing.
const maxAppended = 64 << 20

// Written is what became of a write.
type Written struct {
	Path    string // the file, symbolic links followed, relative to the workspace
	Created bool   // it is new
}

// Write puts content in the place of the file name, or at its end. Missing
// directories are made and an existing file's mode is kept. Either the whole
// change is made or none of it.
func (w *Workspace) Write(name, content string, appending bool) (Written, error) {
	if len(content) > MaxFile {
		return Written{}, fmt.Errorf("the content is %d bytes: at most 1 MiB (%d) is written at once; append the rest",
			len(content), MaxFile)
	}
	if !utf8.ValidString(content) {
		return Written{}, errors.New("the content is not valid UTF-8 text")
	}
	if strings.ContainsRune(content, 0) {
		return Written{}, errors.New("the content contains NUL bytes, so it is no text: write binary files with " +
			"run_command, for example `base64 -d`")
	}
	name, err := w.Target(name)
	if err != nil {
		return Written{}, err
	}
	defer w.lock(name).Unlock()
	created := false
	err = unchanged(name, func() error {
		created, err = w.replace(name, strings.NewReader(content), appending, nil)
		return err
	})
	return Written{Path: name, Created: created}, err
}

// errChanged means that a command wrote to the file while its new content was made from the old.
var errChanged = errors.New("changed meanwhile")

// unchanged makes a change again where a command was quicker, so that nothing it wrote is lost.
func unchanged(name string, change func() error) (err error) {
	for range 20 {
		if err = change(); !errors.Is(err, errChanged) {
			return err
		}
	}
	return fmt.Errorf("%s is being written by a command all the time, and a change would lose a part of that: wait "+
		"for its end, or use >> in run_command", quote(name))
}

// Edit replaces the content of the file name with what change makes of it. With
// dry nothing is written. The path is the file's own, symbolic links followed.
func (w *Workspace) Edit(name string, dry bool, change func(old string) (string, error)) (path string, err error) {
	if path, err = w.Target(name); err != nil {
		return "", err
	}
	defer w.lock(path).Unlock()
	return path, unchanged(name, func() error {
		before, _ := w.root.Lstat(path)
		old, err := w.Read(path)
		if err != nil {
			return err
		}
		text, err := change(old)
		if err != nil || dry {
			return err
		}
		if len(text) > MaxFile {
			return fmt.Errorf("%s would be %d bytes: at most 1 MiB (%d) is written", quote(name), len(text), MaxFile)
		}
		_, err = w.replace(path, strings.NewReader(text), false, before)
		return err
	})
}

// Target is the file behind name that may be written, symbolic links followed.
func (w *Workspace) Target(name string) (string, error) {
	if err := w.checkPath(name); err != nil {
		return "", err
	}
	if strings.HasSuffix(name, "/") {
		return "", fmt.Errorf("%s ends in a slash: name a file", quote(name))
	}
	real, err := w.resolve(name)
	if err != nil {
		return "", err
	}
	return real, w.unprotected(real)
}

// lock serialises the changes to one file, so that no append or edit that
// starts from the old content is lost. Unrelated files may share a lock.
func (w *Workspace) lock(name string) *sync.Mutex {
	h := fnv.New32a()
	io.WriteString(h, name)
	m := &w.locks[h.Sum32()%uint32(len(w.locks))]
	m.Lock()
	return m
}

// replace puts content in the place of name (or of its end), whole or not at
// all: temporary file, fsync, rename, fsync of the directory. If content was made from the
// file as it was before, and it is not like that any more, the error is errChanged.
func (w *Workspace) replace(name string, content io.Reader, appending bool, before fs.FileInfo,
) (created bool, err error) {
	root := w.root
	old, err := root.Lstat(name)
	created = errors.Is(err, fs.ErrNotExist)
	switch {
	case created:
		if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
			return false, explain(path.Dir(name), err)
		}
	case err != nil:
		return false, explain(name, err)
	case !old.Mode().IsRegular():
		return false, notRegular(name, old)
	case old.Mode().Perm()&0o200 == 0:
		return false, fmt.Errorf("%s is read-only (mode %04o): if it should change, make it writable first with "+
			"chmod u+w in run_command", quote(name), old.Mode().Perm())
	case int(old.Sys().(*syscall.Stat_t).Uid) != os.Geteuid():
		return false, fmt.Errorf("%s belongs to another user (uid %d), and replacing it would make it yours: change "+
			"it in place with run_command if that is permitted", quote(name), old.Sys().(*syscall.Stat_t).Uid)
	case appending:
		f, info, err := w.openRegular(name)
		if err != nil {
			return false, err
		}
		defer f.Close()
		if info.Size() > maxAppended {
			return false, fmt.Errorf("%s is %d bytes: files above 64 MiB are not appended to; use run_command",
				quote(name), info.Size())
		}
		content, before = io.MultiReader(io.LimitReader(f, info.Size()), content), info
	}
	if created {
		old = nil
	}
	if err := w.swapIn(name, content, old, before); errors.Is(err, errChanged) {
		return false, err
	} else if err != nil {
		return false, explain(name, err)
	}
	return created, nil
}

// swapIn is the part of replace that touches the disk. A new file's mode is what
// the umask leaves, as in the shell; an existing one's is kept, without set-id
// bits, and so are its group and its extended attributes.
func (w *Workspace) swapIn(name string, content io.Reader, old, before fs.FileInfo) (err error) {
	root := w.root
	f, temp, err := w.temp(path.Dir(name))
	if err != nil {
		return err
	}
	defer func() {
		f.Close()
		if err != nil {
			root.Remove(temp)
		}
	}()
	if old != nil {
		if err = w.inherit(f, name, old); err != nil {
			return err
		}
	}
	if _, err = io.Copy(f, content); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if now, lookErr := root.Lstat(name); before != nil && (lookErr != nil || !os.SameFile(before, now) ||
		now.Size() != before.Size() || !now.ModTime().Equal(before.ModTime())) {
		err = errChanged
		return err
	}
	if err = root.Rename(temp, name); err != nil {
		return err
	}
	dir, openErr := root.OpenFile(path.Dir(name), os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if openErr != nil {
		return nil // moved away meanwhile: the rename itself was done
	}
	defer dir.Close()
	dir.Sync() // some file systems cannot; the change itself is complete
	return nil
}

// temp makes a temporary file and locks it. The lock tells a sweeping server that the
// writer is alive: the kernel drops it when the process dies, however it dies. Some
// file systems have none. A file that was swept before it was locked is made again.
func (w *Workspace) temp(dir string) (f *os.File, name string, err error) {
	for range 100 { // a sweep meets each once at most, but several servers may start
		var id [8]byte
		rand.Read(id[:])
		name = path.Join(dir, tempPrefix+hex.EncodeToString(id[:]))
		if f, err = w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666); err != nil {
			return nil, "", err
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		_, gone := w.root.Lstat(name)
		if gone == nil && (err == nil || lockless(err)) {
			return f, name, nil
		}
		f.Close()
		w.root.Remove(name)
		if gone == nil && err != syscall.EWOULDBLOCK {
			break
		}
		err = syscall.EAGAIN
	}
	return nil, "", err
}

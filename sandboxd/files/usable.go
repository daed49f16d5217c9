package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"
)

// Usable looks at the workspace itself before a call: a command may have closed
// it to its own owner, which is undone and said, and somebody may have moved or
// replaced it, which no tool can repair.
func (w *Workspace) Usable() (notices []string, err error) {
	dir, err := w.itself()
	if err != nil {
		return nil, fmt.Errorf("the workspace cannot be opened any more (%w): ask the owner to restart the server", err)
	}
	info, err := dir.Stat()
	if err != nil {
		return nil, fmt.Errorf("the workspace cannot be read any more: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o700 != 0o700 {
		if err := dir.Chmod(mode | 0o700); err != nil {
			return nil, fmt.Errorf("the workspace is closed to its owner (mode %04o) and cannot be opened again: %w",
				mode, err)
		}
		notices = append(notices, fmt.Sprintf("The workspace was closed to its owner (mode %04o); it was opened again.",
			mode))
	}
	gone := info.Sys().(*syscall.Stat_t).Nlink == 0
	if there, err := os.Stat(w.path); gone || errors.Is(err, fs.ErrNotExist) || err == nil &&
		!os.SameFile(info, there) {
		return nil, errors.New("the workspace was moved, removed or replaced while the server runs, so nothing in it " +
			"can be reached: ask the owner to put it back or to restart the server")
	}
	return notices, nil
}

// itself is the workspace's own directory, opened before any command could
// close it: its mode can be changed through it whatever the mode is.
func (w *Workspace) itself() (*os.File, error) {
	w.opening.Do(func() { w.dir, w.dirErr = w.root.Open(".") })
	return w.dir, w.dirErr
}

// The bounds of a look for lock files.
const (
	lockEntries = 20_000
	lockTime    = 300 * time.Millisecond
	lockNames   = 5
)

// Locks are up to five lock files (*.lock, in directories of git and beside the
// files that they guard) that are younger than since. Lock files that package
// managers keep (package-lock.json, Cargo.lock …) are none.
func (w *Workspace) Locks(since time.Time) (names []string) {
	left, end := lockEntries, time.Now().Add(lockTime)
	since = since.Add(-20 * time.Millisecond) // a file's time is that of the kernel's last tick
	var look func(dir string, depth int)
	look = func(dir string, depth int) {
		f, err := w.root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return
		}
		defer f.Close()
		entries, _ := f.ReadDir(left)
		for _, d := range entries {
			if left--; left <= 0 || len(names) == lockNames || time.Now().After(end) {
				return
			}
			name := path.Join(dir, d.Name())
			switch {
			case d.IsDir() && depth < 12 && d.Name() != "node_modules" && d.Name() != "objects":
				look(name, depth+1)
			case d.Type().IsRegular() && isLock(name):
				if info, err := d.Info(); err == nil && info.ModTime().After(since) {
					names = append(names, Name(name))
				}
			}
		}
	}
	look(".", 0)
	return names
}

// kept are lock files that are meant to stay.
var kept = map[string]bool{"Cargo.lock": true, "yarn.lock": true, "poetry.lock": true, "Gemfile.lock": true,
	"composer.lock": true,
	"Pipfile.lock":  true, "uv.lock": true, "flake.lock": true, "bun.lock": true, "mix.lock": true,
	"pubspec.lock": true,
	"deno.lock":    true, "pdm.lock": true}

func isLock(name string) bool {
	base := path.Base(name)
	return strings.HasSuffix(base, ".lock") && !kept[base] || base == "gc.pid" && strings.Contains(name, ".git")
}

package files

import (
	"context"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// tempPrefix begins the name of a file that is being written; 16 hexadecimal
// digits follow.
const tempPrefix = ".sandboxd-"

// Sweep removes the temporary files of servers that were killed while they
// wrote, until ctx ends. It may run beside other calls, since a large workspace
// must not delay a start.
func (w *Workspace) Sweep(ctx context.Context) {
	fs.WalkDir(w.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return fs.SkipAll
		}
		if err == nil && d.Type().IsRegular() && isTemp(path.Base(name)) {
			w.removeDead(name)
		}
		return nil // an unreadable directory is nobody's mistake here
	})
}

func isTemp(base string) bool {
	hexa, ok := strings.CutPrefix(base, tempPrefix)
	return ok && len(hexa) == 16 && strings.Trim(hexa, "0123456789abcdef") == ""
}

// removeDead removes a temporary file whose writer no longer holds its lock.
func (w *Workspace) removeDead(name string) {
	f, err := w.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		w.root.Remove(name)
	}
}

package files

import (
	"context"
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
func (w *Workspace) Sweep(ctx context.Context) { w.sweep(ctx, ".", 1) }

// sweep reads a directory in pieces: a command may have made one with millions
// of entries.
func (w *Workspace) sweep(ctx context.Context, dir string, depth int) {
	f, err := w.Dir(dir)
	if err != nil {
		return // not permitted, or gone
	}
	defer f.Close()
	for ctx.Err() == nil {
		entries, err := f.ReadDir(512)
		for _, d := range entries {
			name := path.Join(dir, d.Name())
			switch {
			case d.IsDir() && depth < maxDepth:
				w.sweep(ctx, name, depth+1)
			case d.Type().IsRegular() && isTemp(d.Name()):
				w.removeDead(name)
			}
		}
		if err != nil {
			return
		}
	}
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

// Package files works on the text files inside one directory. Every access
// goes through an os.Root, which is what keeps it inside; all errors tell a
// model, which cannot see the machine, what to do.
package files

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// Workspace is one directory. It is safe for concurrent use.
type Workspace struct {
	root      *os.Root
	path      string // how commands see it: only for words
	protected []string
	locks     [64]sync.Mutex // see lock

	opening sync.Once
	closing sync.Once
	dir     *os.File // see itself
	dirErr  error
}

// New works inside root, which the caller closes. path is what an absolute
// path inside it would begin with. protected is such a list as
// DefaultProtected.
func New(root *os.Root, path string, protected []string) *Workspace {
	w := &Workspace{root: root, path: path, protected: protected}
	_, _ = w.itself() // before the first command; Usable says what is wrong
	return w
}

// Close gives up the workspace's directory. The root stays open.
func (w *Workspace) Close() error {
	if w.dir != nil {
		w.closing.Do(func() { _ = w.dir.Close() })
	}
	return nil
}

// Dir opens a directory, the workspace itself for the empty name.
func (w *Workspace) Dir(name string) (*os.File, error) {
	if name == "" {
		name = "."
	}
	if err := w.checkPath(name); err != nil {
		return nil, err
	}
	dir, err := w.root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENOTDIR) {
		return nil, fmt.Errorf("%s is not a directory", quote(name))
	}
	if err != nil {
		return nil, explain(name, err)
	}
	return dir, nil
}

package tool

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// tempPrefix begins the name of a file that is being written; 16 hexadecimal
// digits follow.
const tempPrefix = ".sandboxd-"

// sweep removes the temporary files of servers that were killed while they
// wrote. It runs beside the first calls: a large workspace must not delay the
// start.
func (s *Set) sweep() {
	fs.WalkDir(s.cfg.Root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if s.ctx.Err() != nil {
			return fs.SkipAll
		}
		if err == nil && d.Type().IsRegular() && isTemp(path.Base(name)) {
			s.removeDead(name)
		}
		return nil // an unreadable directory is nobody's mistake here
	})
}

func isTemp(base string) bool {
	hexa, ok := strings.CutPrefix(base, tempPrefix)
	return ok && len(hexa) == 16 && strings.Trim(hexa, "0123456789abcdef") == ""
}

// removeDead removes a temporary file whose writer no longer holds its lock.
func (s *Set) removeDead(name string) {
	f, err := s.cfg.Root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		s.cfg.Root.Remove(name)
	}
}

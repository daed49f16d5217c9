package files

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"
)

const (
	maxPath  = 4096 // bytes; os.Root itself takes more than PATH_MAX
	maxLinks = 40   // symbolic links in one path, as in path_resolution(7)
	maxSteps = 255  // components of one resolved path: each costs a walk from the root
)

// checkPath refuses what can be refused by looking at the text alone. os.Root
// is what holds a path inside; this gives the mistakes their own words.
func (w *Workspace) checkPath(name string) error {
	switch {
	case name == "":
		return errors.New("the path is empty: give one relative to the workspace, such as src/main.go")
	case len(name) > maxPath:
		return fmt.Errorf("the path is %d bytes long: at most %d are allowed", len(name), maxPath)
	case strings.ContainsRune(name, 0):
		return errors.New("the path contains a NUL byte")
	case !utf8.ValidString(name):
		return errors.New("the path is not valid UTF-8")
	case strings.HasPrefix(name, "/"):
		if rel, err := filepath.Rel(w.path, path.Clean(name)); err == nil && filepath.IsLocal(rel) {
			return fmt.Errorf("the path %s is absolute: paths are relative to the workspace, so this is %s",
				quote(name), Quote(rel))
		}
		return fmt.Errorf("the path %s is absolute: paths are relative to the workspace, and nothing outside it can "+
			"be reached", quote(name))
	case !filepath.IsLocal(name):
		return fmt.Errorf("the path %s leads out of the workspace: paths are relative to it and stay in it",
			quote(name))
	}
	return nil
}

// resolve follows every symbolic link in name and returns the clean path that
// is left, which need not exist. It makes names comparable (protected paths)
// and lets a write replace what a link points to. It is no guard: whoever swaps
// a directory in between still meets os.Root.
func (w *Workspace) resolve(name string) (string, error) {
	var done []string
	todo, links := strings.Split(name, "/"), 0
	for steps := 0; len(todo) > 0; steps++ {
		part := todo[0]
		todo = todo[1:]
		switch {
		case steps > maxSteps:
			return "", fmt.Errorf("the path %s has too many parts", quote(name))
		case part == "" || part == ".":
			continue
		case part == ".." && len(done) == 0:
			return "", leadsOut(name)
		case part == "..":
			done = done[:len(done)-1]
			continue
		}
		here := strings.Join(append(done, part), "/")
		info, err := w.root.Lstat(here)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", explain(name, err)
		}
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			done = append(done, part)
			continue
		}
		target, err := w.root.Readlink(here)
		if err != nil {
			return "", explain(name, err)
		}
		if links++; links > maxLinks {
			return "", explain(name, syscall.ELOOP)
		}
		if strings.HasPrefix(target, "/") {
			return "", leadsOut(name)
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	if len(done) == 0 {
		return ".", nil
	}
	return strings.Join(done, "/"), nil
}

func leadsOut(name string) error {
	return fmt.Errorf("%s is or passes through a symbolic link that leads out of the workspace (an absolute link "+
		"counts as one): it is not followed", quote(name))
}

// reasons are what a system error means to someone who cannot see the machine.
var reasons = []struct {
	err  error
	text string
}{
	{fs.ErrNotExist, "does not exist"},
	{syscall.ENOTDIR, "cannot be reached: a part of the path is not a directory"},
	{syscall.EISDIR, "is a directory, not a file"},
	{syscall.EAGAIN, "is held by another program's file lease: try again later"},
	{syscall.ENXIO, "is a socket or pipe without a reader, not a regular file"},
	{syscall.ELOOP, "passes through too many symbolic links"},
	{syscall.ENAMETOOLONG, "has a name that is too long, or too many parts"},
	{syscall.ENOSPC, "cannot be written: the disk is full; what was there before is unchanged"},
	{syscall.EDQUOT, "cannot be written: the disk quota is used up; what was there before is unchanged"},
	{syscall.EROFS, "cannot be written: the file system is read-only"},
	{syscall.EBUSY, "is a mount of its own and cannot be replaced: change it in place with run_command (cat >, sed " +
		"without -i)"},
	{fs.ErrPermission, "is not permitted to the sandbox's user: chmod what is yours; ask the owner to chown the rest"},
}

// explain puts a system error about name into words.
func explain(name string, err error) error {
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return fmt.Errorf("%s %s", quote(name), r.text)
		}
	}
	// os.Root's own refusal has no exported value.
	if strings.Contains(err.Error(), "escapes from parent") {
		return leadsOut(name)
	}
	return fmt.Errorf("%s: %w", quote(name), err)
}

// kind names what is not a regular file.
func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	}
	return "not a regular file"
}

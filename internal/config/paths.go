package config

import (
	"fmt"
	"path/filepath"

	"github.com/sallyport-dev/sallyport/internal/procfs"
)

// Outside checks that the file or directory that a setting names does not lie
// where a command may reach it: a token, a record or a state must not. grants
// reports what, if anything, gives a command access to a path; it is asked
// about the path that is left when every symbolic link is followed, and about
// each part of the path that may be such a link: whoever can change a link
// chooses what the next start reads. The error names both paths. The folder of path is
// opened to its owner first: a command of before may have closed it.
func Outside(setting, path string, grants func(path string) (by string, granted bool)) error {
	_, _ = procfs.OpenToOwner(filepath.Dir(path))
	real, err := resolve(path)
	if err != nil {
		return fmt.Errorf("%s %q: %w", setting, path, err)
	}
	part, err := filepath.Abs(path)
	for at := real; err == nil; part = filepath.Dir(part) {
		if by, granted := grants(at); granted {
			return fmt.Errorf("%s %q lies at or under %q, which commands may reach: move it elsewhere", setting, path,
				by)
		}
		if part == "/" {
			return nil
		}
		at, err = filepath.EvalSymlinks(filepath.Dir(part))
		at = filepath.Join(at, filepath.Base(part))
	}
	return fmt.Errorf("%s %q: %w", setting, path, err)
}

// resolve follows symbolic links as far as path exists; a file may be made
// later, its directory must be there.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real, nil
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.Base(abs)), nil
}

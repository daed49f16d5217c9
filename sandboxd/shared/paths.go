package shared

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Outside checks that the file or directory that a setting names does not lie
// at or beneath one of dirs, with symbolic links resolved on both sides: what
// a command may read or write must not hold a token, a record or a state. The
// error names both paths.
func Outside(setting, path string, dirs []string) error {
	real, err := resolve(path)
	if err != nil {
		return fmt.Errorf("%s %q: %w", setting, path, err)
	}
	for _, dir := range dirs {
		realDir, err := resolve(dir)
		if err != nil {
			continue // what does not exist grants nothing
		}
		if real == realDir || strings.HasPrefix(real, strings.TrimSuffix(realDir, "/")+"/") {
			return fmt.Errorf("%s %q lies at or beneath %q, which commands may reach: move it elsewhere", setting, path, dir)
		}
	}
	return nil
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

package tools

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// CopyCheckout copies what Git knows, and new files that it does not ignore, to
// the folder dst, which it makes.
func CopyCheckout(dst string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	list := exec.Command("git", "-c", "safe.directory="+root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	names, err := list.Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	if err := os.Mkdir(dst, 0o755); err != nil {
		return err
	}
	return run(root, nil, "cp", append([]string{"--parents", "-P", "-t", dst}, existing(root, string(names))...)...)
}

// existing leaves out what Git knows and the folder no longer holds.
func existing(root, names string) (found []string) {
	for name := range strings.SplitSeq(strings.TrimSuffix(names, "\x00"), "\x00") {
		if _, err := os.Lstat(filepath.Join(root, name)); err == nil {
			found = append(found, name)
		}
	}
	return found
}

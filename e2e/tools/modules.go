package tools

import (
	"os"
	"path/filepath"
)

// Modules returns the folders of our Go modules in the checkout: the root, then
// the nested ones that are there.
func Modules(root string) []string {
	all := []string{root}
	for _, name := range []string{"login", "e2e"} {
		if dir := filepath.Join(root, name); IsModule(dir) {
			all = append(all, dir)
		}
	}
	return all
}

// IsModule reports whether the folder is the root of a Go module.
func IsModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

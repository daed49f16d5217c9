package tools

import (
	"os"
	"path/filepath"
)

// NPM returns a folder that holds the packages of e2e/npm/<set>: package.json,
// its lock file and node_modules. No install script runs.
func NPM(set string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	from := filepath.Join(root, "e2e", "npm", set)
	hash, err := hashOf(from)
	if err != nil {
		return "", err
	}
	return once("npm-"+set+"-"+hash, func(tmp string) error {
		if err := os.CopyFS(tmp, os.DirFS(from)); err != nil {
			return err
		}
		// Not npm ci: it stops at an optional package (for Windows) that not every
		// registry serves. The lock file still decides the versions.
		return run(tmp, nil, "npm", "install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund")
	})
}

package command

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Below these the room of a private directory is nearly used up: a package install
// that would not fit is better told before than after it failed.
const (
	fewBytes = 512 << 20 // at most; of a smaller disk an eighth
	fewFiles = 8192      // at most; of fewer inodes an eighth
)

// room is a notice for whoever runs commands with the private directory dir; empty
// while there is enough.
func room(dir string) string {
	var stat unix.Statfs_t
	if unix.Statfs(dir, &stat) != nil || stat.Blocks == 0 {
		return ""
	}
	const where, remedy = "The disk that holds HOME, TMPDIR and the caches of package managers",
		"Remove what you do not need " +
			"(go clean -cache -modcache, npm cache clean --force, pip cache purge, $TMPDIR), or ask the owner for " +
			"more " +
			"room."
	left, size := stat.Bavail*uint64(stat.Bsize), stat.Blocks*uint64(stat.Bsize)
	switch {
	case left == 0 || stat.Files > 0 && stat.Ffree == 0:
		return where + " is full: programs that write there fail. " + remedy
	case left < min(size/8, fewBytes):
		return fmt.Sprintf("%s is nearly full: %d of %d MiB are left. %s", where, left>>20, size>>20, remedy)
	case stat.Files > 0 && stat.Ffree < min(stat.Files/8, fewFiles):
		return fmt.Sprintf("%s has room for %d more files only. %s", where, stat.Ffree, remedy)
	}
	return ""
}

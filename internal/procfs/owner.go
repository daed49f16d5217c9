package procfs

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// OpenToOwner gives the owner of a directory the rights on it back, and says whether
// they were missing: a command of the same account may have taken them away. What has
// been opened is changed, whatever the path leads to by then. One that is not there, a
// link, or (except for root) another account's is left to what opens it next.
func OpenToOwner(dir string) (missing bool, err error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, nil
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	err = unix.Fstat(fd, &stat)
	if me := os.Geteuid(); err != nil || me != 0 && me != int(stat.Uid) || stat.Mode&0o700 == 0o700 {
		return false, err
	}
	return true, unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), stat.Mode&0o7777|0o700) // O_PATH has no fchmod(2)
}

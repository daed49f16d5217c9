package procfs

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// Place is where something lies on its file system, whichever mounts lead to
// it: a bind mount of a directory and the directory itself have one Place, also
// when one of them is seen from inside a container.
type Place struct {
	Device string // major:minor, as in mountinfo
	Path   string // from the file system's own root
}

// PlaceOf finds the Place of a path, every symbolic link followed. The last
// part may be missing; its directory must be there.
func PlaceOf(name string) (Place, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return Place{}, err
	}
	real, err := filepath.EvalSymlinks(abs)
	if errors.Is(err, os.ErrNotExist) {
		real, err = filepath.EvalSymlinks(filepath.Dir(abs))
		real = filepath.Join(real, filepath.Base(abs))
	}
	if err != nil {
		return Place{}, err
	}
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return Place{}, err
	}
	return place(string(raw), real)
}

// place looks a clean absolute path up in a table of mounts. The longest mount
// point above it counts, and of several there the last, which covers the others
// (proc_pid_mountinfo(5): device, root and mount point are fields 3 to 5).
func place(mountinfo, name string) (found Place, err error) {
	longest := -1
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		root, at := unescape(fields[3]), unescape(fields[4])
		if rest, ok := under(at, name); ok && len(at) >= longest {
			longest, found = len(at), Place{fields[2], path.Join(root, rest)}
		}
	}
	if longest < 0 {
		return Place{}, fmt.Errorf("no mount holds %s", name)
	}
	return found, nil
}

// Holds reports whether q is p or lies inside it.
func (p Place) Holds(q Place) bool {
	_, ok := under(p.Path, q.Path)
	return ok && p.Device == q.Device
}

// under is the rest of name under dir, and whether it is there at all.
func under(dir, name string) (rest string, ok bool) {
	if dir == "/" || dir == name {
		return strings.TrimPrefix(name, dir), true
	}
	return strings.CutPrefix(name, dir+"/")
}

// unescape reads the kernel's octal escapes of blanks and backslashes.
func unescape(field string) string {
	for i := 0; i+4 <= len(field); i++ {
		if n, err := strconv.ParseUint(field[i+1:i+4], 8, 8); field[i] == '\\' && err == nil {
			field = field[:i] + string([]byte{byte(n)}) + field[i+4:]
		}
	}
	return field
}

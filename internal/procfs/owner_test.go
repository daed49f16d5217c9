package procfs_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/procfs"
)

// A directory comes back to its owner and to nobody else; a link, a file, one that is
// not there and (root aside) another account's are left as they are.
func TestOpenToOwner(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(os.Mkdir(path("target"), 0o700), os.Symlink("target", path("link")), os.WriteFile(path("file"), nil, 0o600))
	for _, name := range []string{"target", "file"} {
		err = errors.Join(err, os.Chmod(path(name), 0o055))
	}
	if err != nil {
		t.Fatal(err)
	}
	mode := func(name string) os.FileMode {
		info, err := os.Lstat(path(name))
		if err != nil {
			return 0o055 // not there
		}
		return info.Mode().Perm()
	}
	for _, name := range []string{"link", "file", "missing"} {
		if missing, err := procfs.OpenToOwner(path(name)); err != nil || missing || mode("target") != 0o055 || name != "link" && mode(name) != 0o055 {
			t.Errorf("%s: %v, modes %v and %v", name, err, mode(name), mode("target"))
		}
	}
	for _, want := range []bool{true, false} {
		if missing, err := procfs.OpenToOwner(path("target")); err != nil || missing != want || mode("target") != 0o755 {
			t.Errorf("%v %v, mode %v", missing, err, mode("target"))
		}
	}
	if missing, err := procfs.OpenToOwner("/proc/1/fd"); os.Geteuid() != 0 && (missing || err != nil) {
		t.Errorf("another account's: %v %v", missing, err)
	}
}

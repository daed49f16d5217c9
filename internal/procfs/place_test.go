package procfs

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

const table = `22 1 8:1 / / rw - ext4 /dev/sda1 rw
30 22 0:40 / /tmp rw - tmpfs tmpfs rw
31 22 8:1 /home/me/src /workspace rw - ext4 /dev/sda1 rw
32 22 8:1 /home/me/src/sallyport/.sallyport/sandbox-token /run/secrets/sandbox-token ro - ext4 /dev/sda1 rw
33 22 8:1 /home/me/with\040blank /mnt/with\040blank rw - ext4 /dev/sda1 rw
34 22 8:1 /old /mnt/twice rw - ext4 /dev/sda1 rw
35 34 8:2 / /mnt/twice rw - ext4 /dev/sdb1 rw
`

func TestPlaceInATable(t *testing.T) {
	for name, want := range map[string]Place{
		"/etc/passwd":                {"8:1", "/etc/passwd"},
		"/":                          {"8:1", "/"},
		"/tmp":                       {"0:40", "/"},
		"/tmp/a/b":                   {"0:40", "/a/b"},
		"/tmpfile":                   {"8:1", "/tmpfile"},
		"/workspace/a":               {"8:1", "/home/me/src/a"},
		"/run/secrets/sandbox-token": {"8:1", "/home/me/src/sallyport/.sallyport/sandbox-token"},
		"/mnt/with blank/x":          {"8:1", "/home/me/with blank/x"},
		"/mnt/twice/x":               {"8:2", "/x"},
	} {
		if got, err := place(table, name); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", name, got, err, want)
		}
	}
	if _, err := place("", "/x"); err == nil {
		t.Error("a table without a mount held a path")
	}
}

func TestHolds(t *testing.T) {
	dir := Place{"8:1", "/home/me"}
	for q, want := range map[Place]bool{
		{"8:1", "/home/me"}: true, {"8:1", "/home/me/x"}: true,
		{"8:1", "/home/menace"}: false, {"8:1", "/home"}: false, {"8:2", "/home/me/x"}: false,
	} {
		if dir.Holds(q) != want {
			t.Errorf("%v holds %v: %t", dir, q, !want)
		}
	}
}

// The kernel's own table: a directory and its bind mount are one place.
func TestPlaceThroughABindMount(t *testing.T) {
	base := t.TempDir()
	real, bound := filepath.Join(base, "real"), filepath.Join(base, "bound")
	for _, dir := range []string{real, bound} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	before, err := PlaceOf(filepath.Join(bound, "file"))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(real, bound, "", unix.MS_BIND, ""); err != nil {
		t.Logf("bind mounts are not permitted here: %v", err)
		return
	}
	defer unix.Unmount(bound, unix.MNT_DETACH)
	a, errA := PlaceOf(filepath.Join(real, "file"))
	b, errB := PlaceOf(filepath.Join(bound, "file"))
	if errA != nil || errB != nil || a != b || a == before {
		t.Errorf("%v %v, %v %v, before %v", a, errA, b, errB, before)
	}
}

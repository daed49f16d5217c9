package selftest

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/jail/policy"
)

// mounts tries to change, outside what is granted, what no Landlock right
// covers, and looks for a mount that can be written.
func (at Place) mounts() []attempt {
	var now unix.Timespec
	return []attempt{
		{"change a mode outside", func() error { return unix.Chmod("/usr", 0o755) }, unix.EROFS},
		{"change times outside", func() error {
			return unix.UtimesNanoAt(unix.AT_FDCWD, "/usr", []unix.Timespec{now, now}, 0)
		}, unix.EROFS},
		{"set an attribute outside", func() error { return unix.Setxattr("/usr", "user.sallyport", nil, 0) },
			unix.EROFS},
		{policy.PrivateMounts{}.String(), at.writableMount, nil},
	}
}

// writableMount is an error that names a mount that should be read-only.
func (at Place) writableMount() error {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	own := append([]string{"/proc", "/tmp", "/dev/shm", "/dev/pts"},
		append(slices.Clip(at.Config.Writable), at.Config.Private...)...)
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line) // proc_pid_mountinfo(5): where, and the options of the mount
		if len(f) < 6 || slices.Contains(strings.Split(f[5], ","), "ro") {
			continue
		}
		if !slices.ContainsFunc(own, func(dir string) bool { return f[4] == dir || under(f[4], dir) }) {
			return fmt.Errorf("%s can be written", f[4])
		}
	}
	return nil
}

// network looks for an interface that is not loopback, where there must be none.
func (at Place) network() []attempt {
	if at.Config.Network != policy.Allowlist {
		return nil
	}
	return []attempt{{policy.OwnNetwork{}.String(), func() error {
		raw, err := os.ReadFile("/proc/self/net/dev")
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(raw)) {
			if name, _, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && name != "lo" {
				return fmt.Errorf("there is an interface %s", name)
			}
		}
		return nil
	}, nil}}
}

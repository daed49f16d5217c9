package procfs

import (
	"fmt"
	"testing"
)

// The limit that counts may be a parent's: a unit's, a slice's.
func TestPidsCgroups(t *testing.T) {
	const v2 = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	const v1 = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n" +
		"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	for name, c := range map[string]struct{ own, mounts, want string }{
		"a unit":          {"0::/system.slice/sallyport.service\n", v2, "[/sys/fs/cgroup/system.slice/sallyport.service /sys/fs/cgroup/system.slice /sys/fs/cgroup]"},
		"a container":     {"0::/\n", v2, "[/sys/fs/cgroup]"},
		"v1":              {"9:name=systemd:/\n8:pids:/a/b\n0::/else\n", v1, "[/sys/fs/cgroup/pids/a/b /sys/fs/cgroup/pids/a /sys/fs/cgroup/pids]"},
		"v1, unified too": {"0::/else\n8:cpu,pids:/a\n", v1, "[/sys/fs/cgroup/pids/a /sys/fs/cgroup/pids]"},
		"v1 in a container": {"8:pids:/docker/x\n", "39 31 0:36 /docker/x /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids\n",
			"[/sys/fs/cgroup/pids]"},
		"below a container": {"0::/docker/x/y\n", "39 31 0:36 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "[/sys/fs/cgroup/y /sys/fs/cgroup]"},
		"not in view":       {"0::/../other\n", v2, "[/sys/fs/cgroup]"},
		"none":              {"", "", "[]"},
	} {
		if got := fmt.Sprint(cgroupsOf("pids", c.own, c.mounts)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

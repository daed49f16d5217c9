package procfs

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// PidsLimit is the limit of a container, and whether this is one: the root of
// the mount has such a file only where it is not the root of the hierarchy.
func PidsLimit() (limit int, contained bool) {
	for _, f := range []string{"/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"} {
		if raw, err := os.ReadFile(f); err == nil {
			limit, _ = strconv.Atoi(strings.TrimSpace(string(raw))) // "max" is none
			return limit, true
		}
	}
	return 0, false
}

// OOMCount is how many processes of this cgroup the kernel has killed for want
// of memory; -1 where it does not say.
type OOMCount int

// OOMKills reads the counter: cgroup v2's memory.events, or in a container v1's
// memory.oom_control at the root of the mount, which is its own group there.
func OOMKills() OOMCount {
	own, _ := os.ReadFile("/proc/self/cgroup")
	_, v2, _ := strings.Cut("\n"+strings.TrimSpace(string(own)), "\n0::")
	files := []string{"/sys/fs/cgroup" + v2 + "/memory.events"}
	if _, contained := PidsLimit(); contained {
		files = append(files, "/sys/fs/cgroup/memory/memory.oom_control")
	}
	for _, f := range files {
		if raw, err := os.ReadFile(f); err == nil && bytes.Contains(raw, []byte("\noom_kill ")) {
			return OOMCount(Field(raw, "oom_kill "))
		}
	}
	return -1
}

// Since is whether something was killed so since the count. Commands that run
// at the same time share the counter.
func (before OOMCount) Since() *bool {
	after := OOMKills()
	if before < 0 || after < 0 {
		return nil
	}
	killed := after > before
	return &killed
}

package jail

import (
	"bytes"
	"os"
	"strings"
)

// oomCount is how many processes of this cgroup the kernel has killed for want
// of memory; -1 where it does not say.
type oomCount int

// oomKills reads the counter: cgroup v2's memory.events, v1's
// memory.oom_control at the root of the mount, which is a container's own group.
func oomKills() oomCount {
	own, _ := os.ReadFile("/proc/self/cgroup")
	_, v2, _ := strings.Cut("\n"+strings.TrimSpace(string(own)), "\n0::")
	for _, f := range []string{"/sys/fs/cgroup" + v2 + "/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"} {
		if raw, err := os.ReadFile(f); err == nil && bytes.Contains(raw, []byte("\noom_kill ")) {
			return oomCount(field(raw, "oom_kill "))
		}
	}
	return -1
}

// since is whether something was killed so since the count. Commands that run
// at the same time share the counter.
func (before oomCount) since() *bool {
	after := oomKills()
	if before < 0 || after < 0 {
		return nil
	}
	killed := after > before
	return &killed
}

package procfs

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
)

// PidsLimit is the smallest limit on processes of the cgroups that this process
// is in, up to the root of the mount; 0 where none of them has one. contained
// says whether this is a container: the root of the mount has a limit only where
// it is not the root of the hierarchy.
func PidsLimit() (limit int, contained bool) { return smallest("pids", "pids.max", "pids.max") }

// MemoryLimit is the smallest limit on memory of those cgroups, in bytes; 0 where none of them has one.
func MemoryLimit() int {
	limit, _ := smallest("memory", "memory.max", "memory.limit_in_bytes")
	return limit
}

// smallest reads a limit by its name in cgroup v2 or v1.
func smallest(controller, v2, v1 string) (limit int, contained bool) {
	own, _ := os.ReadFile("/proc/self/cgroup")
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for _, dir := range cgroupsOf(controller, string(own), string(mounts)) {
		raw, err := os.ReadFile(dir + "/" + v2)
		if err != nil {
			raw, err = os.ReadFile(dir + "/" + v1)
		}
		// of the last one, the root of the mount
		contained = err == nil
		if n, _ := strconv.Atoi(strings.TrimSpace(string(raw))); n > 0 && (limit == 0 || n < limit) { // "max" is none
			limit = n
		}
	}
	return limit, contained
}

// cgroupsOf are the directories of the cgroups that a controller of a process counts in,
// from its own up to the root of the mount (cgroups(7), proc_pid_mountinfo(5)).
func cgroupsOf(controller, own, mounts string) (dirs []string) {
	var path string
	v1 := false
	for line := range strings.Lines(own) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		if named := slices.Contains(strings.Split(f[1], ","), controller); named || f[1] == "" && !v1 {
			path, v1 = f[2], named
		}
	}
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(line, " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if len(f) < 5 || len(g) < 3 {
			continue
		}
		if v1 && (g[0] != "cgroup" || !slices.Contains(strings.Split(g[2], ","), controller)) || !v1 &&
			g[0] != "cgroup2" {
			continue
		}
		return upwards(path, f[3], f[4])
	}
	return nil
}

// upwards are the directories from a cgroup up to where its hierarchy, or the
// part of it from root on, is mounted.
func upwards(cgroup, root, mount string) (dirs []string) {
	below, ok := strings.CutPrefix(cgroup, strings.TrimSuffix(root, "/"))
	for ok && strings.Trim(below, "/") != "" && !strings.Contains(below, "..") {
		dirs = append(dirs, mount+below)
		below = below[:strings.LastIndexByte(below, '/')]
	}
	return append(dirs, mount)
}

// OOMCount is how many processes of this cgroup the kernel has killed because
// memory ran out; -1 where it does not say.
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

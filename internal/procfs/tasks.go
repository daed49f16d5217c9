// Package procfs reads what the kernel says about what this process lives
// in: its account, its container, what is mounted there. It changes nothing.
package procfs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// Tasks counts the account's tasks in /proc: those of this process and what it
// started, and all others.
func Tasks() (own, outside int, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		return 0, 0, err
	}
	parent, threads := map[int]int{}, map[int]int{}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		pid := Field(raw, "Pid:")
		parent[pid] = Field(raw, "PPid:")
		if Field(raw, "Uid:") == os.Getuid() {
			threads[pid] = Field(raw, "Threads:")
		}
	}
	for pid, n := range threads {
		p := pid
		for p != os.Getpid() && p > 0 {
			p = parent[p]
		}
		if p > 0 {
			own += n
		} else {
			outside += n
		}
	}
	return own, outside, nil
}

// Field is the first number behind a name in a status file.
func Field(raw []byte, name string) int {
	_, rest, _ := bytes.Cut(raw, []byte("\n"+name))
	n := 0
	fmt.Sscan(string(rest[:min(len(rest), 32)]), &n)
	return n
}

// Package procfs reads what the kernel says about what this process lives
// in: its account, its container, what is mounted there. It changes nothing.
package procfs

import (
	"bytes"
	"errors"
	"os"
	"strconv"
)

// Tasks counts the account's tasks in /proc: those of this process and what it
// started, and all others. It reads every process of the machine.
func Tasks() (own, outside int, err error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return 0, 0, err
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return 0, 0, err
	}
	parent, threads := map[int]int{}, map[int]int{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		raw, err := os.ReadFile("/proc/" + name + "/status")
		if err != nil {
			continue // it has ended
		}
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

// AllTasks is how many tasks the whole machine has, in all containers: an upper
// bound of any other count, for the price of one line (proc(5), loadavg).
func AllTasks() (int, error) {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(raw)
	if len(fields) < 4 {
		return 0, errors.New("/proc/loadavg has another form")
	}
	_, all, _ := bytes.Cut(fields[3], []byte("/"))
	return strconv.Atoi(string(all))
}

// Field is the first number behind a name in a status file, or 0.
func Field(raw []byte, name string) int {
	_, rest, _ := bytes.Cut(raw, []byte("\n"+name))
	rest = bytes.TrimLeft(rest[:min(len(rest), 32)], " \t")
	n := 0
	for _, c := range rest {
		if c < '0' || c > '9' {
			break
		}
		n = 10*n + int(c-'0')
	}
	return n
}

package rig

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Servers lists the processes that do a program's work: the one that was started,
// and its children with the same command line, since sandboxd continues as a child
// (jail.Reexec). Other children, such as a gateway's servers, are not counted.
func (p *Process) Servers() []int {
	first := p.Cmd.Process.Pid
	all, line := []int{first}, commandLine(first)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well formed
	for _, name := range stats {
		pid, _ := strconv.Atoi(strings.Split(name, "/")[2])
		fields := statFields(pid)
		if len(fields) > 1 && fields[1] == strconv.Itoa(first) && len(line) > 0 && bytes.Equal(commandLine(pid), line) {
			all = append(all, pid)
		}
	}
	return all
}

// Kill ends all of them at once, as kill -9 does, the one that works first.
func (p *Process) Kill() {
	for _, pid := range slices.Backward(p.Servers()) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
}

// CPU is the processor time that they have used together, to the nanosecond where
// no thread has ended (proc(5): schedstat).
func (p *Process) CPU() (sum time.Duration) {
	for _, pid := range p.Servers() {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		for _, name := range threads {
			var ns int64
			if data, err := os.ReadFile(name); err == nil {
				fmt.Sscan(string(data), &ns)
			}
			sum += time.Duration(ns)
		}
	}
	return sum
}

// Resident is their resident memory together, in bytes.
func (p *Process) Resident(t testing.TB) (sum int) {
	t.Helper()
	for _, pid := range p.Servers() {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Fatal(err)
		}
		if _, after, found := strings.Cut(string(data), "VmRSS:"); found {
			kib, _ := strconv.Atoi(strings.Fields(after)[0])
			sum += kib << 10
		}
	}
	return sum
}

// Descriptors counts what they have open together.
func (p *Process) Descriptors() (sum int) {
	for _, pid := range p.Servers() {
		open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)) // none once it ended
		sum += len(open)
	}
	return sum
}

func commandLine(pid int) []byte {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // empty once it ended
	return data
}

// statFields are the fields of /proc/PID/stat after the name: state, parent, …
func statFields(pid int) []string {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // empty once it ended
	i := bytes.LastIndexByte(data, ')')
	if i < 0 {
		return nil
	}
	return strings.Fields(string(data[i+1:]))
}

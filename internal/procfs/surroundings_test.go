package procfs_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/procfs"
)

// A child counts as our own while it lives, also one whose parent has died.
func TestTasks(t *testing.T) {
	before, _, err := procfs.Tasks()
	if err != nil || before < 1 {
		t.Fatalf("%d, %v", before, err)
	}
	child := exec.Command("/bin/sh", "-c", "echo; read x & wait")
	in, _ := child.StdinPipe()
	out, _ := child.StdoutPipe()
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	defer in.Close()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	// This process's own threads come and go; the child is at least one more
	// than its first.
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	threads := procfs.Field(raw, "Threads:")
	own, _, err := procfs.Tasks()
	if err != nil || own <= threads-3 || own < 2 {
		t.Errorf("own %d, threads %d, %v", own, threads, err)
	}
}

func TestField(t *testing.T) {
	raw := []byte("Name:\tThreads: 7\nUid:\t1000\t1001\nThreads:\t12\noom_kill 3")
	for name, want := range map[string]int{"Uid:": 1000, "Threads:": 12, "oom_kill ": 3, "PPid:": 0} {
		if got := procfs.Field(raw, name); got != want {
			t.Errorf("%s %d, want %d", name, got, want)
		}
	}
}

// Nothing has been killed between two looks, or nothing is known.
func TestOOMKills(t *testing.T) {
	before := procfs.OOMKills()
	if killed := before.Since(); killed != nil && *killed || (before < 0) != (killed == nil) {
		t.Errorf("%d, %v", before, killed)
	}
}

// The machine's count is no smaller than any part of it, and takes one file.
func TestAllTasksBoundsTheOthers(t *testing.T) {
	own, outside, err := procfs.Tasks()
	if err != nil {
		t.Fatal(err)
	}
	all, err := procfs.AllTasks()
	if err != nil || all != 0 && all+16 < own+outside { // 0: gVisor; some may end in between
		t.Errorf("%d of the machine, %d of this process and %d others, %v", all, own, outside, err)
	}
	if n := testing.AllocsPerRun(5, func() { procfs.AllTasks() }); n > 20 {
		t.Errorf("it takes %v allocations", n)
	}
}

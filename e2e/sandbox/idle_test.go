package sandbox

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// The parent of a server that runs in a user namespace of its own only waits: it
// keeps little of the program's file in memory. Its child, which serves, is the twin.
func TestParentGivesMemoryBack(t *testing.T) {
	rig.NeedRoot(t)
	s := rig.StartSandboxd(t, rig.SandboxdOptions{})
	pids := s.Servers()
	if len(pids) != 2 {
		t.Skipf("not on this machine: %d processes; the server has no user namespace of its own", len(pids))
	}
	fromFile := func(pid int) (kib int) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(status), "RssFile:")
		fmt.Sscan(after, &kib)
		return kib
	}
	parent, child := fromFile(pids[0]), fromFile(pids[1])
	t.Logf("resident of files: parent %d KiB, child %d KiB", parent, child)
	if parent == 0 || child == 0 || parent > child/2 {
		t.Errorf("the parent keeps %d KiB of files in memory, the child that works %d KiB", parent, child)
	}
	if s.Stop(); s.Err != nil {
		t.Errorf("SIGTERM was not passed on as before: %v", s.Err)
	}
}

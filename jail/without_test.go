//go:build container

package jail_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/jail"
)

// A command that the kernel kills when memory runs out is reported so, and the server lives.
func TestOutOfMemory(t *testing.T) {
	j, _ := newJail(t, jail.Full)
	var res jail.Result
	for range 3 { // once in a hundred runs the kernel thrashes for a minute before it kills
		if res, _, _ = run(t, j, jail.Command{Args: sh("tail /dev/zero"), Timeout: long}); !res.TimedOut {
			break
		}
	}
	if res.OOMKilled == nil || !*res.OOMKilled || res.TimedOut {
		t.Errorf("%+v", res)
	}
	res, out, _ := run(t, j, jail.Command{Args: sh("echo alive")})
	if out != "alive\n" || res.OOMKilled == nil || *res.OOMKilled {
		t.Errorf("%+v %q", res, out)
	}
}

// What lies in a memfd counts for no process, so by size alone the kernel would
// end the server, which is larger than who fills it. With many at once, too.
func TestServerOutlivesFullMemory(t *testing.T) {
	j, _ := newJail(t, jail.Full)
	const fill = `exec perl -e 'my $name = "x"; open(my $f, ">&=", syscall(%s, $name, 0)) or die; my $block = "x" x 65536; 1 while syswrite($f, $block)'`
	nr := map[string]string{"amd64": "319", "arm64": "279"}[runtime.GOARCH] // memfd_create
	var all sync.WaitGroup
	var killed atomic.Int32 // the kernel may thrash over one of them until its time is up
	for range 3 {
		all.Go(func() {
			res, err := j.Run(t.Context(), jail.Command{Args: sh(fmt.Sprintf(fill, nr)), Env: []string{"PATH=/usr/bin:/bin"}, Timeout: long})
			if err != nil || res.Signal != "SIGKILL" {
				t.Errorf("%+v, %v", res, err)
			}
			if res.OOMKilled != nil && *res.OOMKilled {
				killed.Add(1)
			}
		})
	}
	all.Wait()
	if killed.Load() == 0 {
		t.Error("memory was never short")
	}
	if _, out, _ := run(t, j, jail.Command{Args: sh("echo alive")}); out != "alive\n" {
		t.Errorf("%q", out)
	}
}

// What no process holds would stay in the container's memory until the kernel ends
// the server: shared memory is refused, and where it is allowed it stays.
func TestSharedMemoryDoesNotStay(t *testing.T) {
	const size = 48 << 20
	fill := fmt.Sprintf(`perl -e '$id = shmget(0, %d, 0600); die "refused\n" unless defined $id; shmwrite($id, "x" x %d, 0, %d) or die; print $id'`, size, size, size)
	for _, allow := range []bool{false, true} {
		j, _ := newJailWith(t, jail.Config{Mode: jail.Full, Network: jail.None, SysVIPC: allow})
		before := memory(t)
		res, id, stderr := run(t, j, jail.Command{Args: sh(fill), Timeout: long})
		grown := memory(t) - before
		if (res.ExitCode == 0) != allow || (grown > size/2) != allow {
			t.Errorf("allowed %v: %+v %q, %d MiB more", allow, res, stderr, grown>>20)
		}
		if allow {
			run(t, j, jail.Command{Args: sh("perl -e 'shmctl(" + id + ", 0, 0) or die'")})
		}
	}
}

// memory is what the container uses, in bytes.
func memory(t *testing.T) int {
	t.Helper()
	for _, path := range []string{"/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory/memory.usage_in_bytes"} {
		if raw, err := os.ReadFile(path); err == nil {
			return atoi(strings.TrimSpace(string(raw)))
		}
	}
	t.Skip("not on this machine: this container cannot read its memory")
	return 0
}

// Chains that fork and leave their session outlive a group. Nothing could stop
// them on a machine, so this is built only for a container that ends with them,
// as the last of its tests.
func TestChainsOutliveAGroup(t *testing.T) {
	j, dir := newJail(t, jail.Group)
	prog := program(t, dir)
	if _, err := j.Run(t.Context(), jail.Command{Args: []string{prog}, Env: []string{actVariable + "=hydra"}, Timeout: time.Second}); err != nil {
		t.Fatal(err)
	}
	// One look may come between two links of each.
	waitFor(t, func() bool { return len(asleep(prog)) > 0 })
}

package jail_test

import (
	"bytes"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/jail"
)

// often is a hundred in a soak, a tenth of it otherwise.
func often() int {
	if soaking {
		return 100
	}
	return 10
}

// sink counts what is written to it.
type sink int64

func (s *sink) Write(p []byte) (int, error) { *s += sink(len(p)); return len(p), nil }

// Bombs, floods and attacks on its limits leave the server as it was.
func TestServerLivesThrough(t *testing.T) {
	j, dir := newJail(t, jail.Full)
	prog := program(t, dir)
	var before, after unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	aim := target{Victim: os.Getpid(), Thread: otherThread(t, os.Getpid())}
	for i := range often() {
		for _, name := range []string{"prlimit", "affinity", "nice", "nice the account", "ionice", "scheduler", "kill", "kill a thread", "ptrace", "oom score", "pidfd_send_signal"} {
			if out := try(t, j, prog, aim, name); strings.HasSuffix(out, "through\n") {
				t.Fatal(out)
			}
		}
		p, err := j.Start(t.Context(), jail.Command{Args: []string{prog}, Env: []string{actVariable + "=bomb"}, Timeout: 200 * time.Millisecond})
		if err != nil {
			t.Fatalf("bomb %d: %v", i, err)
		}
		if res := p.Wait(); res.Unkillable || len(asleep(prog)) > 0 {
			t.Fatalf("bomb %d: %+v", i, res)
		}
	}
	var flood sink
	var res jail.Result
	var err error
	for timeout := time.Duration(often()/10) * time.Second; flood < 1<<20 && timeout < 2*long; timeout *= 4 {
		res, err = j.Run(t.Context(), jail.Command{Args: sh("cat /dev/zero"), Stdout: &flood, Timeout: timeout})
	}
	if err != nil || !res.TimedOut || flood < 1<<20 {
		t.Errorf("flood of %d bytes: %+v, %v", flood, res, err)
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	t.Logf("%d bombs; a flood of %d MiB, heap %d KiB", often(), flood>>20, mem.HeapInuse>>10)
	if mem.HeapInuse > 64<<20 {
		t.Errorf("heap %d MiB", mem.HeapInuse>>20)
	}
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &after); err != nil || before != after {
		t.Errorf("descriptors: limit was %+v, is %+v, %v", before, after, err)
	}
}

// A program that makes calls of another architecture is killed at the first;
// without the filter the same program runs, where the kernel has such calls.
func TestForeignArchitectureIsKilled(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		return // the evaluated filter shows it there
	}
	const source = `int main(void){int r; __asm__ volatile("int $0x80":"=a"(r):"a"(20)); return r>0?0:1;}` // getpid
	full, dir := newJail(t, jail.Full)
	work, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer work.Close()
	build := jail.Command{Args: sh("cat > a.c && gcc -o a a.c"), Dir: work, Stdin: input(t, source), Env: []string{"PATH=/usr/bin:/bin", "TMPDIR=" + dir}}
	if res, _, stderr := run(t, full, build); res.ExitCode != 0 {
		t.Fatalf("%+v %s", res, stderr)
	}
	group, _ := newJail(t, jail.Group)
	if res, _, _ := run(t, group, jail.Command{Args: []string{dir + "/a"}}); res.ExitCode != 0 {
		killsForeign(t)
		t.Logf("this kernel has no 32-bit calls (without a jail: %+v), so no filter is asked; the evaluated filter kills them", res)
		return
	}
	if res, _, _ := run(t, full, jail.Command{Args: []string{dir + "/a"}}); res.Signal != "SIGSYS" {
		t.Errorf("%+v", res)
	}
}

// killsForeign evaluates the filter for what int $0x80 would be.
func killsForeign(t *testing.T) {
	t.Helper()
	for _, cfg := range configs(t) {
		if got := evaluate(t, jail.Filter(cfg, "amd64"), unix.AUDIT_ARCH_I386, 20, [6]uint64{}); got != killed {
			t.Errorf("network %s, container %v: verdict %#x on a 32-bit call", cfg.Network, cfg.InContainer, got)
		}
	}
}

// The proof for kernels without 32-bit calls holds on every kernel.
func TestFilterKillsForeignArchitecture(t *testing.T) { killsForeign(t) }

func input(t *testing.T, text string) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	if _, err := bytes.NewBufferString(text).WriteTo(w); err != nil {
		t.Fatal(err)
	}
	w.Close()
	return r
}

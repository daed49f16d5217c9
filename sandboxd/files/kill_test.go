package files_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/sandboxd/files"
)

// writerVariable makes this test binary write versions of a file until killed.
const writerVariable = "SALLYPORT_TEST_WRITER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerVariable); dir != "" {
		if errno := os.Getenv(locklessVariable); errno != "" {
			writeWithoutLocks(dir, errno)
		}
		writeForEver(dir, os.Getenv("NAIVE") != "")
	}
	os.Exit(m.Run())
}

// version i is 300 KB that cannot be mistaken for a part of another.
func version(i int) string { return strings.Repeat(string(rune('a'+i%26)), 300_000) }

func writeForEver(dir string, naive bool) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		panic(err)
	}
	w := files.New(root, dir, nil)
	for i := 0; ; i++ {
		if naive {
			err = os.WriteFile(filepath.Join(dir, "f"), []byte(version(i)), 0o644)
		} else {
			_, err = w.Write("f", version(i), false)
		}
		if err != nil {
			panic(err)
		}
		if i == 2 {
			os.Stdout.WriteString("writing\n")
		}
	}
}

// killedWriter starts a writer and kills it with SIGKILL after some time.
func killedWriter(t *testing.T, dir string, naive bool, after time.Duration) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), writerVariable+"="+dir)
	if naive {
		cmd.Env = append(cmd.Env, "NAIVE=1")
	}
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "writing\n" {
		t.Fatalf("the writer said %q, %v", line, err)
	}
	time.Sleep(after)
	must(t, cmd.Process.Kill())
	cmd.Wait()
}

func whole(t *testing.T, dir string) bool {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "f"))
	must(t, err)
	return len(data) == 300_000 && strings.Trim(string(data), string(data[:1])) == ""
}

func rounds() int {
	if os.Getenv("SALLYPORT_SOAK") == "true" {
		return 200
	}
	return 50
}

func TestSoakKilledWriterLeavesOldOrNew(t *testing.T) {
	dir, w := tree(t, map[string]string{"f": version(0)})
	temps := 0
	for i := range rounds() {
		killedWriter(t, dir, false, time.Duration(i%10)*time.Millisecond)
		if !whole(t, dir) {
			t.Fatalf("round %d: the file is mixed or cut", i)
		}
		left, err := filepath.Glob(filepath.Join(dir, ".sandboxd-*"))
		must(t, err)
		if len(left) > 1 {
			t.Fatalf("round %d: %d temporary files", i, len(left))
		}
		temps += len(left)
		w.Sweep(t.Context())
		if left, _ := filepath.Glob(filepath.Join(dir, ".sandboxd-*")); len(left) > 0 {
			t.Fatalf("round %d: %v is not swept", i, left)
		}
	}
	t.Logf("%d rounds left %d temporary files, all swept", rounds(), temps)
}

func TestKilledNaiveWriterLeavesRuins(t *testing.T) {
	dir := t.TempDir()
	for i := range 500 {
		if killedWriter(t, dir, true, time.Duration(i%10)*time.Millisecond); !whole(t, dir) {
			return
		}
	}
	t.Error("writing in place never left a cut file: the other test shows nothing")
}

// A server that starts sweeps beside the first writes, its own and those of another
// server: none of them fails, though its file may be taken for a dead one's until it
// is locked.
func TestWritesBesideASweep(t *testing.T) {
	dir, w := tree(t, map[string]string{"f": "old"})
	done := make(chan bool)
	var sweeps sync.WaitGroup
	for range 2 {
		sweeps.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					w.Sweep(t.Context())
				}
			}
		})
	}
	for i := range 300 {
		if _, err := w.Write("f", version(i)[:10], false); err != nil {
			t.Errorf("write %d: %v", i, err)
		}
	}
	close(done)
	sweeps.Wait()
	if left, _ := filepath.Glob(filepath.Join(dir, ".sandboxd-*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

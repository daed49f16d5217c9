package audit_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/audit/reader"
)

// TestMain runs this binary as the process that a test kills or fills up.
func TestMain(m *testing.M) {
	switch file := os.Getenv("AUDIT_TEST_FILE"); os.Getenv("AUDIT_TEST_ROLE") {
	case "writer":
		writeUntilKilled(file)
	case "full":
		if err := fillDisk(file); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func again(role, file string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "AUDIT_TEST_ROLE="+role, "AUDIT_TEST_FILE="+file)
	cmd.Stderr = os.Stderr
	return cmd
}

// writeUntilKilled says "begin" before the effect of each call and "end" after
// its end was recorded.
func writeUntilKilled(file string) {
	l, err := audit.Open(audit.Options{File: file, RotateBytes: 32 << 10, Keep: 1000})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	for {
		p, err := l.Begin(audit.Call{Tool: "run_command", Arguments: []byte(`{"command":"true"}`)})
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Println("begin", p.Seq())
		p.End(audit.Outcome{Verdict: "ok"})
		fmt.Println("end", p.Seq())
	}
}

// kill -9 at random points, each time on the same chain: nothing that was said
// to be recorded is missing, the chain verifies, and the next start goes on.
func TestKilledWriterLosesNothing(t *testing.T) {
	t.Parallel()
	rounds := 20
	if os.Getenv("SALLYPORT_SOAK") != "" {
		rounds = 200
	}
	file := filepath.Join(t.TempDir(), "a", "audit.jsonl")
	begins, ends := map[uint64]bool{}, map[uint64]bool{}
	for round := range rounds {
		started := false
		cmd := again("writer", file)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Some are killed while they start, the others at any time after their
		// first call.
		after := time.Duration(rand.IntN(40_000)) * time.Microsecond
		timer := time.NewTimer(after)
		if round%4 != 0 {
			timer.Stop()
		}
		over := make(chan struct{})
		go func() {
			select {
			case <-timer.C:
			case <-over:
			}
			cmd.Process.Kill()
		}()
		for said := bufio.NewScanner(out); said.Scan(); {
			var word string
			var seq uint64
			if n, _ := fmt.Sscan(said.Text(), &word, &seq); n != 2 {
				if strings.HasPrefix(said.Text(), "error") {
					t.Errorf("round %d: %s", round, said.Text())
				}
				continue // cut off by the kill
			}
			map[string]map[uint64]bool{"begin": begins, "end": ends}[word][seq] = true
			if word == "end" && !started {
				started = true
				timer.Reset(after)
			}
		}
		close(over)
		_ = cmd.Wait()
		r, err := audit.Verify(file, audit.VerifyOptions{})
		if len(begins) == 0 && errors.Is(err, os.ErrNotExist) {
			continue // it was killed before there was a chain
		}
		if err != nil || r.Finding != nil {
			t.Fatalf("round %d: %v, %v", round, r.Finding, err)
		}
		if last, _, err := reader.Read(file); err != nil || uint64(last) != r.Last {
			t.Fatalf("round %d: the second reader: record %d of %d, %v", round, last, r.Last, err)
		}
	}
	if len(ends) < rounds/2 {
		t.Fatalf("only %d calls in %d rounds", len(ends), rounds)
	}
	_ = audit.Lines(file, func(l audit.Line) bool {
		if r, ok := l.Record(); ok && r.Kind == audit.KindBegin {
			delete(begins, r.Seq)
		} else if ok && r.Kind == audit.KindEnd {
			delete(ends, r.Begin)
		}
		return true
	})
	if len(begins)+len(ends) > 0 {
		t.Errorf("said to be recorded and missing: begins %v, ends %v", begins, ends)
	}
}

// A full disk, in a mount namespace of its own.
func TestFullDiskRefusesCalls(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := again("full", filepath.Join(dir, "a", "audit.jsonl"))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Skipf("not on this machine: it allows no user namespace: %v", err)
	}
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// fillDisk records calls until the disk is full. The call that is under way
// then still ends on the record; the next one is refused, until there is room.
func fillDisk(file string) error {
	dir := filepath.Dir(filepath.Dir(file))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		return err
	}
	l, err := audit.Open(audit.Options{File: file})
	if err != nil {
		return err
	}
	under, err := l.Begin(audit.Call{Tool: "run_command"})
	if err != nil {
		return err
	}
	rest, err := os.Create(filepath.Join(dir, "rest"))
	if err != nil {
		return err
	}
	if n, err := io.Copy(rest, endless{}); !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("twin: the disk is not full after %d bytes: %v", n, err)
	}
	under.End(audit.Outcome{Verdict: "ok"})
	refusal := err
	for n := 0; refusal == nil && n < 10_000; n++ { // what was reserved before may still be used
		var p *audit.Pending
		if p, refusal = l.Begin(audit.Call{Tool: "run_command", Arguments: []byte(`{"n":1}`)}); refusal == nil {
			p.End(audit.Outcome{Verdict: "ok"})
		}
	}
	if !errors.Is(refusal, audit.ErrUnwritable) || !errors.Is(refusal, syscall.ENOSPC) {
		return fmt.Errorf("the disk is full and calls begin: %v", refusal)
	}
	if err := os.Remove(rest.Name()); err != nil {
		return err
	}
	rest.Close()
	if p, err := l.Begin(audit.Call{Tool: "run_command"}); err != nil {
		return fmt.Errorf("there is room again: %w", err)
	} else {
		p.End(audit.Outcome{Verdict: "ok"})
	}
	if err := l.Close(); err != nil {
		return err
	}
	r, err := audit.Verify(file, audit.VerifyOptions{})
	if err != nil || r.Finding != nil || r.Open != 0 {
		return fmt.Errorf("%+v, %w", r, err)
	}
	return nil
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
